"""What runs a search: PyTorch, CTranslate2 or ONNX Runtime, and the choice between them."""

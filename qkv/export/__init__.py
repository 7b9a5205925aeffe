"""Export to other formats: Hugging Face, CTranslate2, ONNX."""

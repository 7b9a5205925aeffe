"""In and out of other programs' formats: Hugging Face, CTranslate2, ONNX."""

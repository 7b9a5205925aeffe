"""The recurrent encoder-decoder with attention that the Transformer replaced."""

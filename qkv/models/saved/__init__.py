"""A saved model is a folder: weights, config, tokenizers, manifest."""

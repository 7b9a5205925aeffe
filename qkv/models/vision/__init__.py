"""The Vision Transformer: images to classes."""

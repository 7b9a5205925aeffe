"""ConvS2S."""

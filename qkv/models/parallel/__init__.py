"""Non-autoregressive models: all positions in one pass."""

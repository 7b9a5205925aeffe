"""Inference: fused layers, the KV cache, and passes over one position, a block or a whole sequence."""

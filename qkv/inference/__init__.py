"""A model without gradients: fused weights, the KV cache, and passes over one position, a block or everything."""

"""Language models from the same blocks: one stack of self-attention, without a source."""

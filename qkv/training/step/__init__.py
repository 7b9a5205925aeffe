"""One update: its batches, the precision of its products, its gradient."""

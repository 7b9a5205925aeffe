"""What a run keeps of the inside of its model: attention of a few dev pairs, and norms by layer."""

"""What is learned: a model and a batch to a loss."""

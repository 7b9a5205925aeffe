"""The building blocks as modules: attention, positions, feed-forward, residual and norm, embedding."""

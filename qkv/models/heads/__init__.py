"""The output head: decoder states to log-probabilities."""

"""How sequences come out of a model."""

"""Which tokens of a text are hidden, for models that learn from texts alone."""

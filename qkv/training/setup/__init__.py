"""From a recipe to data, tokenizers and first weights; what can be said about a run before it starts."""

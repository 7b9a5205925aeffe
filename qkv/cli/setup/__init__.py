"""Verbs that come before training: data, tokenizers, recipes, models that are there already."""

"""Objectives: a model and a batch to a loss. Importing the package registers the objective of every decoder kind."""

from qkv.objectives import canvas, ctc, dag, language, mask_predict, nat, numbers

__all__ = ["canvas", "ctc", "dag", "language", "mask_predict", "nat", "numbers"]

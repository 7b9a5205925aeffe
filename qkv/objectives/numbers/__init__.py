"""What models of images and of series learn: classes and values, not tokens."""

from qkv.objectives.numbers import classes, squared_error

__all__ = ["classes", "squared_error"]

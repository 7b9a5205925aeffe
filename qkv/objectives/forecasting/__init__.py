"""What a forecasting model learns."""

from qkv.objectives.forecasting import squared_error

__all__ = ["squared_error"]

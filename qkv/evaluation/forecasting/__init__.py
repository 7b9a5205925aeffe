"""Forecasts measured: errors, and the simple forecasts that a model must beat."""

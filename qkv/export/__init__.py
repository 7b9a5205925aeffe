"""Models in other programs' formats."""

"""The parts of `compare_families.py`."""

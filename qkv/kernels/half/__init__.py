"""Products in 16 bits on a CPU."""

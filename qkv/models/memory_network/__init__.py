"""End-to-end memory networks."""

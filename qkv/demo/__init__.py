"""The demonstration: letters to phonemes, learned from the CMU Pronouncing Dictionary in a few minutes."""

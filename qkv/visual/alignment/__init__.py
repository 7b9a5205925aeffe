"""Alignments of words or tokens, drawn in the terminal and as a figure."""

"""Figures for papers, painted by matplotlib: one function each, all in the style of `core.figures`."""

"""Equations of attention heads: what is measured of them, and gates that close them."""

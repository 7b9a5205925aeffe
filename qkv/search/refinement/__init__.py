"""Decoding of non-autoregressive models: canvases, passes over them, and a reader for each kind of decoder."""

from qkv.search.refinement import ctc, dag, long_canvas, nat

__all__ = ["ctc", "dag", "long_canvas", "nat"]

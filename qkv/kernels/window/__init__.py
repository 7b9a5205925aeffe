"""Attention in a window of positions: by blocks on any device, by `flex_attention` where that is faster."""

from qkv.kernels.window.blocks import Everywhere, Window, by_class, by_position, window_attention

__all__ = ["Everywhere", "Window", "by_class", "by_position", "window_attention"]

"""How a non-autoregressive model writes: canvases, passes over them, and how each kind is read."""

"""The patched time-series Transformer: windows of a series to its future."""

"""Seven kinds from outside of qkv. Importing the package registers them; one file each."""

from qkv_example_kinds import attention, decoder, head, metric, optimizer, positions, search

__all__ = ["attention", "decoder", "head", "metric", "optimizer", "positions", "search"]

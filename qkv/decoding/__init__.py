"""How sequences come out of a model. Importing the package registers every kind of search."""

from qkv.decoding import beam, greedy, mbr, refine, sampling

__all__ = ["beam", "greedy", "mbr", "refine", "sampling"]

"""How sequences come out of a model. Importing the package registers every kind of search."""

from qkv.search import beam, greedy, mbr, sampling
from qkv.search.refinement import search as refine

__all__ = ["beam", "greedy", "mbr", "refine", "sampling"]

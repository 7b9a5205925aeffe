"""Search algorithms. Importing the package registers every kind."""

from qkv.search import beam, greedy, mbr, sampling
from qkv.search.refinement import search as refine

__all__ = ["beam", "greedy", "mbr", "refine", "sampling"]

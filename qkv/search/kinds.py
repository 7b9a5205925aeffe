"""Every kind of search. Importing this module registers them."""

from typing import Annotated

from qkv.search import beam, greedy, mbr, sampling
from qkv.search.base import SearchConfig, searches
from qkv.search.refinement import search as refine
from qkv.search.speculative import search as speculative

__all__ = ["AnySearch", "beam", "greedy", "mbr", "refine", "sampling", "speculative"]

AnySearch = Annotated[SearchConfig, searches]

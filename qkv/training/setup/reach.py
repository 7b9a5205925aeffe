"""Finds targets of the dev or test data that are longer than an output may be."""

from collections.abc import Iterator

import numpy as np

from qkv.data.length_limit import LengthLimit
from qkv.data.store import PairStore
from qkv.search.greedy import GreedyConfig
from qkv.training.recipe import Recipe


def out_of_reach(name: str, store: PairStore, recipe: Recipe, limit: LengthLimit) -> Iterator[str]:
    """An advice, if there are such targets in the part `name`; `limit` is the one that a model of this run learns."""
    validating = recipe.validation.search if name == "dev" else None
    key = "validation.search.max_length" if name == "dev" else "search.max_length of qkv evaluate"
    search, most = (validating or GreedyConfig()).within(limit), recipe.model.limits.tgt
    lengths, place = np.unique(store.src_len, return_inverse=True)
    reached = np.array([search.limits(int(length), most).max_length for length in lengths])
    if count := int((store.tgt_len > reached[place]).sum()):
        yield (
            f"{count:,} of {len(store):,} targets of {name} are longer than an output may be, so no model can get them "
            f"right: raise {key}"
        )

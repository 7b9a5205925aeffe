"""Advice on pairs: headers learned as pairs, dev pairs in train, targets that no output can reach."""

from collections.abc import Iterator

import numpy as np

from qkv.data.config import PairsConfig
from qkv.data.length_limit import LengthLimit, fit_length_limit
from qkv.data.parts import corpus_keys
from qkv.data.readers.table import TableCorpus
from qkv.data.store import PairStore
from qkv.search.greedy import GreedyConfig
from qkv.training.recipe import Recipe
from qkv.training.setup.advice import SHARED, Situation, data_checks


def _data(now: Situation) -> PairsConfig:
    assert isinstance(now.recipe.data, PairsConfig)
    return now.recipe.data


def _headers(now: Situation) -> Iterator[str]:
    for key, corpus in corpus_keys(_data(now)):
        if isinstance(corpus, TableCorpus) and corpus.possible_header(now.recipe.data.root):
            yield (
                f"{now.recipe.data.root / corpus.path}:1 looks like names of columns and would be learned as a pair: "
                f"set {key}.header to true to skip it, or to false if it is a pair"
            )


def _dev_sources_in_train(now: Situation) -> Iterator[str]:
    shared = now.dev_in_train
    if shared is None or _data(now).dev is None:
        return
    if shared.pairs <= SHARED * shared.total < shared.sources:
        yield (
            f"{shared.sources:,} of {shared.total:,} sources of dev are also in train, with other targets: if dev is "
            "to show how new sources are treated, take them out of data.train, or set data.holdout, which keeps them "
            "apart"
        )


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


def _reach(now: Situation) -> Iterator[str]:
    train = now.prepared.train
    assert isinstance(train, PairStore)
    limit = fit_length_limit(train.src_len, train.tgt_len)
    for name, store in (("dev", now.prepared.dev), ("test", now.test)):
        if isinstance(store, PairStore):
            yield from out_of_reach(name, store, now.recipe, limit)


data_checks.register("pairs", (_headers, _dev_sources_in_train, _reach))
data_checks.register("labelled", (_headers, _dev_sources_in_train))
data_checks.register("tagged", (_headers, _dev_sources_in_train))

"""The default way to stop a beam search, against exact search and greedy search, over many sentences.

`benchmarks/beam_stopping.py` does the same for 10,000 sentences of each kind of model.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest
from jaxtyping import config

from qkv.models.transformer.model import Transformer
from qkv.search.base import SearchConfig
from qkv.search.beam import BeamConfig
from qkv.search.greedy import GreedyConfig
from qkv.search.hypothesis import Hypothesis
from qkv.search.models import ModelSteps
from tests.support.commander import SRC_VOCAB, TGT_VOCAB, commander, commands
from tests.support.small import small_model
from tests.support.tables import run_search, task_of

SENTENCES = 1000
BATCH = 250


@pytest.fixture(scope="module", autouse=True)
def unchecked() -> Iterator[None]:
    """Without the checks of shapes, which take longer than a small model."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


@dataclass
class Found:
    """The best outputs of one search."""

    outputs: list[Hypothesis]

    def agreement(self, other: "Found") -> float:
        same = sum(one.tokens == two.tokens for one, two in zip(self.outputs, other.outputs, strict=True))
        return same / len(self.outputs)

    def mean_score(self) -> float:
        """Of log p / |Y|, whatever the search ranks by."""
        return sum(sum(one.token_scores) / len(one.token_scores) for one in self.outputs) / len(self.outputs)


def search_all(models: Sequence[Transformer], search: SearchConfig) -> Found:
    """Over `SENTENCES` sources, as many for each model."""
    count = SENTENCES // len(models)
    outputs: list[Hypothesis] = []
    for number, model in enumerate(models):
        steps, sources = ModelSteps(model), commands(count, number)
        for first in range(0, count, BATCH):
            outputs += [best for (best,) in run_search(search, steps, task_of(sources[first : first + BATCH], search))]
    return Found(outputs)


@pytest.fixture(scope="module")
def trained() -> list[Transformer]:
    return [commander()]


@pytest.fixture(scope="module")
def untrained() -> list[Transformer]:
    return [small_model(seed, SRC_VOCAB, TGT_VOCAB, share_embeddings="none").eval() for seed in range(5)]


@pytest.mark.parametrize("models", ["trained", "untrained"])
def test_the_default_finds_what_exact_search_finds(models: str, request: pytest.FixtureRequest) -> None:
    """In at least 99.5 % of the sentences, and no worse than greedy search on average."""
    every: list[Transformer] = request.getfixturevalue(models)
    exact, default = search_all(every, BeamConfig(stop="exact")), search_all(every, BeamConfig())
    assert default.agreement(exact) >= 0.995
    # A product of more rows may round differently, so equal outputs have nearly equal scores.
    greedy, same = search_all(every, GreedyConfig()), 1e-6
    assert greedy.mean_score() <= default.mean_score() + same
    assert default.mean_score() <= exact.mean_score() + same


def test_counting_ends_stops_too_early(trained: list[Transformer]) -> None:
    """What the default is there for: weak ENDs stop a search by `enough`, and its outputs are worse and too short."""
    hasty, default = search_all(trained, BeamConfig(stop="enough")), search_all(trained, BeamConfig())
    assert hasty.mean_score() < default.mean_score()
    assert sum(len(one.tokens) for one in hasty.outputs) < sum(len(one.tokens) for one in default.outputs)

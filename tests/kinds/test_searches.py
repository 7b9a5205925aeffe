"""Every kind of search: ends, keeps to its limits, does not depend on the batch, is documented."""

import random
from pathlib import Path
from typing import Any

import pytest
import torch

from qkv.config import Config, dump_config, load_config
from qkv.core.errors import QkvError, UsageError
from qkv.search.base import LengthLimits, SearchConfig, SearchTask, searches
from qkv.search.greedy import GreedyConfig
from qkv.search.hypothesis import Hypothesis
from qkv.search.kinds import AnySearch
from qkv.search.length_penalty import length_penalties
from qkv.search.models import ModelSteps, PrefixSteps
from qkv.search.protocol import StepFunction
from qkv.text import SPECIAL
from tests.support.searched import STEPWISE, VARIANTS
from tests.support.small import small_model
from tests.support.tables import END, TableSteps, random_attention, random_sources, random_table, run_search, task_of

every_kind = pytest.mark.parametrize("kind", STEPWISE)
every_variant = pytest.mark.parametrize(("kind", "settings"), VARIANTS)


class Holder(Config):
    """A search as a field, to be written and read."""

    search: AnySearch = GreedyConfig()
    """The search."""


def brief(found: list[list[Hypothesis]]) -> list[list[tuple[list[int], bool]]]:
    return [[(each.tokens, each.ended) for each in hypotheses] for hypotheses in found]


def never_ends(source: tuple[int, ...], said: tuple[int, ...]) -> list[float]:
    return [-torch.inf, -9.0, -torch.inf, -torch.inf, -torch.inf, -0.1, -0.2]


@every_kind
@pytest.mark.parametrize("longest", [0, 1, 5])
def test_every_search_stops_at_the_limit_and_says_so(kind: str, longest: int) -> None:
    """A model that never says END, and an empty source."""
    task = task_of([[END], [5, 6, END]], LengthLimits(longest))
    for (best,) in run_search(searches[kind](), TableSteps(never_ends), task):
        assert len(best.tokens) == len(best.token_scores) == longest
        assert not best.ended


@every_kind
def test_each_sentence_has_its_own_limit(kind: str) -> None:
    limits = [LengthLimits(3), LengthLimits(0), LengthLimits(6), LengthLimits(1)]
    src = torch.full((4, 1), END)
    task = SearchTask(src, src == END, SPECIAL, limits)
    found = run_search(searches[kind](), TableSteps(never_ends), task)
    assert [len(best.tokens) for (best,) in found] == [3, 0, 6, 1]


@every_kind
def test_no_sentences_no_outputs(kind: str) -> None:
    assert run_search(searches[kind](), TableSteps(never_ends), task_of([], LengthLimits(3))) == []


@every_kind
def test_attention_is_that_of_each_token_over_the_real_source(kind: str) -> None:
    weights, sources = random_attention(2), random_sources(5, 3)
    steps = TableSteps(random_table(1, 9), weights)
    for source, (best, *_) in zip(
        sources, run_search(searches[kind](), steps, task_of(sources, LengthLimits(6))), strict=True
    ):
        assert best.attention is not None
        assert len(best.attention) == len(best.tokens)
        for place, row in enumerate(best.attention):
            assert row == pytest.approx(list(weights(tuple(source), tuple(best.tokens[:place]))))


@every_kind
def test_not_a_number_is_said_in_one_sentence(kind: str) -> None:
    def broken(source: tuple[int, ...], said: tuple[int, ...]) -> list[float]:
        return [torch.nan] * 9 if len(said) == 1 else [-torch.inf, -3.0, -torch.inf, -3.0, -torch.inf, *[-1.0] * 4]

    with pytest.raises(QkvError, match="not a number"):
        run_search(searches[kind](min_length=1), TableSteps(broken), task_of([[5, END]], LengthLimits(4, 1)))


@every_kind
def test_it_can_be_stopped_after_each_step(kind: str) -> None:
    calls: list[int] = []

    def stop() -> None:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt

    steps = TableSteps(never_ends)
    with pytest.raises(KeyboardInterrupt):
        run_search(searches[kind](), steps, task_of([[END]], LengthLimits(9), after_step=stop))
    assert steps.steps == 3


def same(steps: StepFunction, search: SearchConfig, sources: list[list[int]]) -> list[list[Hypothesis]]:
    """The hypotheses of each sentence alone, checked to be those in a batch and in another order."""
    nbest = min(search.rows, 2)
    alone = [run_search(search, steps, task_of([source], search, nbest=nbest))[0] for source in sources]
    together = run_search(search, steps, task_of(sources, search, nbest=nbest))
    assert brief(together) == brief(alone)
    order = list(range(len(sources)))
    random.Random(0).shuffle(order)
    shuffled = run_search(search, steps, task_of([sources[index] for index in order], search, nbest=nbest))
    assert brief(shuffled) == brief([alone[index] for index in order])
    for ours, others in zip(together, alone, strict=True):
        for one, other in zip(ours, others, strict=True):
            assert one.score == pytest.approx(other.score, abs=1e-4)
            assert one.token_scores == pytest.approx(other.token_scores, abs=1e-4)
    return alone


@every_variant
def test_a_sentence_does_not_depend_on_its_batch(kind: str, settings: dict[str, Any]) -> None:
    search = searches[kind](max_factor=1.0, max_extra=3, **settings)
    found = same(TableSteps(random_table(5, 14, end=0.5)), search, random_sources(40, 2))
    assert len({tuple(best.tokens) for best, *_ in found}) > 8
    assert {best.ended for best, *_ in found} == {True, False}


@every_variant
def test_nor_does_it_with_a_real_model(kind: str, settings: dict[str, Any]) -> None:
    model = small_model(3, share_embeddings="none", residual="pre", encoder_layers=1, decoder_layers=1).eval()
    search = searches[kind](max_factor=1.0, max_extra=2, **settings)
    sources = random_sources(12, 4)
    cached = same(ModelSteps(model), search, sources)
    assert brief(cached) == brief(
        run_search(search, PrefixSteps(model), task_of(sources, search, nbest=min(search.rows, 2)))
    )
    assert len({tuple(best.tokens) for best, *_ in cached}) > 3


@pytest.mark.parametrize("kind", searches.names())
def test_its_settings_are_written_and_read_again(kind: str, tmp_path: Path) -> None:
    holder = Holder(search=kind)
    assert type(holder.search) is searches[kind]
    (tmp_path / "config.yaml").write_text(dump_config(holder), encoding="utf-8")
    assert load_config(Holder, tmp_path / "config.yaml") == holder


@pytest.mark.parametrize("cls", [*searches, *length_penalties], ids=lambda cls: cls.__name__)
def test_it_is_documented(cls: type[Config]) -> None:
    own = cls.__dict__.get("__doc__")
    assert own
    assert own.strip()
    assert [name for name, field in cls.model_fields.items() if name != "kind" and not field.description] == []


@every_kind
def test_it_gives_no_more_hypotheses_than_it_has(kind: str) -> None:
    search = searches[kind]()
    found = run_search(search, TableSteps(random_table(1, 9)), task_of(random_sources(4), search, nbest=search.rows))
    assert all(1 <= len(hypotheses) <= search.rows for hypotheses in found)
    for hypotheses in found:
        assert [each.score for each in hypotheses] == sorted((each.score for each in hypotheses), reverse=True)
    with pytest.raises(UsageError, match=f"{search.rows + 1}"):
        run_search(search, TableSteps(random_table(1, 9)), task_of([[END]], search, nbest=search.rows + 1))


def test_no_two_kinds_find_the_same() -> None:
    found = {}
    for kind in STEPWISE:
        search = searches[kind](max_factor=1.0)
        outputs = run_search(search, TableSteps(random_table(5, 14)), task_of(random_sources(30), search))
        found[kind] = str(brief(outputs))
    assert len(set(found.values())) == len(found) >= 4

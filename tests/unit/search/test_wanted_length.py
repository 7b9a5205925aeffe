"""Outputs of a wanted length: as long as asked, ended, and the best of those that are."""

from typing import Any

import pytest

from qkv.core.errors import ConfigError, UsageError
from qkv.search.base import Constraints, LengthLimits, LengthWindow, SteppedSearch
from qkv.search.beam import BeamConfig
from qkv.search.greedy import GreedyConfig, GreedySearch
from qkv.search.mbr import MbrConfig
from qkv.search.sampling import SampleConfig
from qkv.translate.output import Translation
from qkv.translate.translator import Translator
from tests.support.speaker import sentences, speaker
from tests.support.tables import OnlySteps, TableSteps, every_output, random_sources, random_table, run_search, task_of

EVERY = [GreedyConfig(), BeamConfig(), BeamConfig(size=4, groups=2), BeamConfig(stop="exact")]
EVERY += [SampleConfig(samples=3), MbrConfig(samples=4)]
SOURCES = random_sources(10, 8)
TEXTS = sentences(30)


def translated(search: SteppedSearch, **more: Any) -> list[Translation]:
    return Translator(speaker(), "torch", search).translate(TEXTS, **more)


@pytest.mark.parametrize("search", EVERY, ids=lambda search: f"{search.kind}-{search.rows}")
def test_every_output_is_within_the_window_and_ends(search: SteppedSearch) -> None:
    steps = TableSteps(random_table(2, 12, end=1.0))
    free = run_search(search, steps, task_of(SOURCES, LengthLimits(9)))
    assert not all(4 <= len(best.tokens) <= 5 for best, *_ in free)
    found = run_search(search, steps, task_of(SOURCES, LengthLimits(9), constraints=[Constraints(length=(4, 5))] * 10))
    assert {len(one.tokens) for own in found for one in own} <= {4, 5}
    assert all(one.ended for own in found for one in own)


def test_a_wide_beam_finds_the_best_of_all_outputs_of_that_length() -> None:
    table = random_table(3, 8, end=0.5)
    search = BeamConfig(size=200, stop="exact")
    for source in random_sources(5, 3):
        task = task_of([source], LengthLimits(4), constraints=[Constraints(length=(2, 3))])
        ((best,),) = run_search(search, TableSteps(table), task)
        possible = [one for one in every_output(table, tuple(source), 8, 4) if one.ended and 2 <= len(one.tokens) <= 3]
        wanted = max(possible, key=lambda one: sum(one.token_scores) / len(one.token_scores))
        assert tuple(best.tokens) == wanted.tokens
        assert best.score == pytest.approx(sum(wanted.token_scores) / len(wanted.token_scores))


def test_an_exact_length_is_met_exactly() -> None:
    for search in (GreedyConfig(length=5), BeamConfig(length=5, size=3)):
        assert {len(one.tokens) for one in translated(search)} == {5}
    # The longest length gives way, as it does for a prefix.
    assert {len(one.tokens) for one in translated(GreedyConfig(length=9, max_length=3))} == {9}
    assert not any(one.truncated for one in translated(GreedyConfig(length=9, max_length=3)))


@pytest.mark.parametrize("search", [GreedyConfig(max_factor=1), BeamConfig(size=3, max_factor=1)], ids=lambda s: s.kind)
def test_a_factor_of_what_the_search_would_do(search: SteppedSearch) -> None:
    usual = [len(one.tokens) for one in translated(search)]
    assert len(set(usual)) > 3
    for factor in (0.6, 1.5):
        for slack in (0, 1):
            asked = search.model_copy(update={"length_factor": factor, "length_slack": slack})
            for length, one in zip(usual, translated(asked), strict=True):
                assert abs(len(one.tokens) - max(1, round(factor * length))) <= slack


def test_scores_stay_those_of_the_model() -> None:
    translator = Translator(speaker(), "torch", GreedyConfig(length=4))
    found = translator.translate(TEXTS)
    for one, scored in zip(
        found, translator.score(list(zip(TEXTS, [one.text for one in found], strict=True))), strict=True
    ):
        assert one.score == pytest.approx(scored.score, abs=1e-4)


def test_a_prefix_and_required_words_find_room() -> None:
    found = Translator(speaker(), "torch", BeamConfig(length=2)).translate(
        TEXTS, prefixes=["aa ab"] * 30, required=[["bb ba"]] * 30
    )
    for one in found:
        assert one.tokens[:2] == ["aa", "ab"]
        assert "bb ba" in one.text
        assert len(one.tokens) <= 4
        assert not one.truncated


class Short(GreedySearch):
    """A search that handles fewer tokens than the model, as one does whose outputs another model rescores."""

    tgt_limit: int | None = 4


def test_a_window_keeps_to_the_limit_of_its_search() -> None:
    config = GreedyConfig(length=9)
    model, task = OnlySteps(TableSteps(random_table(2, 12, end=1.0))), task_of(SOURCES, LengthLimits(4))
    found = LengthWindow(Short(), config.window, config.limits, measure_first=False).search(task, model)
    assert {len(one.tokens) for own in found for one in own} == {3}  # and END


def test_what_is_refused() -> None:
    with pytest.raises(ConfigError, match="leave out length_factor"):
        BeamConfig(length=4, length_factor=1.5)
    with pytest.raises(ConfigError):
        BeamConfig(length_factor=0)
    with pytest.raises(UsageError, match="takes no length or length_factor"):
        Translator(speaker(), "ctranslate2", BeamConfig(length=4)).translate(["aa"])

"""The fast engine gives what our own search gives, and refuses what it cannot do so."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from qkv.core.errors import CorruptFolder, QkvError, UsageError
from qkv.engines.base import DecodeRequest, Engine
from qkv.engines.ctranslate2_engine import (
    CTranslate2Engine,
    ctranslate2_request_obstacles,
    ctranslate2_search_obstacles,
)
from qkv.engines.torch_engine import TorchEngine
from qkv.export.ctranslate2 import export_ctranslate2
from qkv.models.heads.linear import output_matrix
from qkv.models.saved.folder import SavedModel, save_model
from qkv.search.base import Constraints, SearchConfig, searches
from qkv.search.beam import BeamConfig
from qkv.search.greedy import GreedyConfig
from qkv.search.hypothesis import Hypothesis
from qkv.text.special import SPECIAL
from tests.support.exported import TIE, decided_model, random_sources, score_by_model

NONE = {"kind": "none"}
ENOUGH = {"stop": "enough"}
SHORT = {"max_factor": 1.0, "max_extra": 5}
Pair = tuple[TorchEngine, CTranslate2Engine]


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Pair]:
    """Both engines of a model, made once for each set of changes."""
    made: dict[str, Pair] = {}

    def get(**changes: Any) -> Pair:
        name = str(changes)
        if name not in made:
            made[name] = both(decided_model(**changes), tmp_path_factory.mktemp("export") / "fast")
        return made[name]

    return get


def both(saved: SavedModel, folder: Path, quantization: str | None = None) -> Pair:
    export_ctranslate2(saved, folder, quantization)
    return TorchEngine([saved.model]), CTranslate2Engine(folder)


def request(search: SearchConfig, count: int, nbest: int = 1, **changes: Any) -> DecodeRequest:
    return DecodeRequest(search, nbest, [Constraints()] * count, **changes)


OurScore = Callable[[int, Hypothesis], float]
"""The number of a sentence and a hypothesis -> the score that our own model and search give it."""


def assert_same(
    ours: list[list[Hypothesis]], theirs: list[list[Hypothesis]], our_score: OurScore | None = None
) -> None:
    """The same lists; with `our_score`, another hypothesis may stand in a place if we find it just as good."""
    for row, (own, other) in enumerate(zip(ours, theirs, strict=True)):
        assert [one.score for one in other] == pytest.approx([one.score for one in own], abs=1e-4, rel=1e-5)
        for one, two in zip(own, other, strict=True):
            if (one.tokens, one.ended) == (two.tokens, two.ended):
                assert two.token_scores == pytest.approx(one.token_scores, abs=1e-4)
            else:
                assert our_score is not None, f"sentence {row} differs"
                assert our_score(row, two) == pytest.approx(one.score, abs=TIE), (
                    f"sentence {row} differs, and is no tie"
                )


def score_in(
    engine: TorchEngine, search: SearchConfig, sources: Sequence[list[int]], row: int, found: Hypothesis
) -> float:
    said = [*found.tokens, *([SPECIAL.eos] if found.ended else [])]
    return score_by_model(engine.models[0], search, sources[row], said)


def outputs(hypotheses: Sequence[Hypothesis]) -> list[tuple[list[int], bool]]:
    return [(one.tokens, one.ended) for one in hypotheses]


@pytest.mark.parametrize(
    "search", [GreedyConfig(**SHORT), BeamConfig(stop="enough", **SHORT), BeamConfig(stop="exact", **SHORT)], ids=str
)
def test_a_thousand_sentences_come_out_the_same(engines: Callable[..., Pair], search: SearchConfig) -> None:
    ours, theirs = engines()
    sources = random_sources(1000, seed=5)
    expected, found = decoded(ours, sources, search), decoded(theirs, sources, search)
    assert_same(expected, found, partial(score_in, ours, search, sources))
    ended = sum(own[0].ended for own in found)
    assert 100 < ended < 900, "some must end by themselves and some be cut, or the test says little"


def test_a_thousand_sentences_by_the_heuristic(engines: Callable[..., Pair]) -> None:
    """It stops otherwise than we: nearly all are what `exact` finds, and none is better than that."""
    _, theirs = engines()
    sources = random_sources(1000, seed=5)
    best, found, hasty = (
        decoded(theirs, sources, BeamConfig(stop=stop, **SHORT)) for stop in ("exact", "heuristic", "enough")
    )
    assert sum(outputs(own) == outputs(other) for own, other in zip(best, found, strict=True)) >= 985
    assert sum(outputs(own) == outputs(other) for own, other in zip(best, hasty, strict=True)) < 900
    gaps = [own[0].score - other[0].score for own, other in zip(best, found, strict=True)]
    assert min(gaps) > -TIE
    assert sum(gaps) < 0.001 * len(gaps)


def decoded(engine: Engine, sources: list[list[int]], search: SearchConfig) -> list[list[Hypothesis]]:
    return [found for rows in batches(sources) for found in engine.decode(rows, request(search, len(rows)))]


def batches(sources: list[list[int]]) -> list[list[list[int]]]:
    """Of a hundred, their lengths mixed."""
    return [sources[first : first + 100] for first in range(0, len(sources), 100)]


@pytest.mark.parametrize(
    ("search", "nbest"),
    [
        (BeamConfig(**ENOUGH), 5),
        (BeamConfig(size=3, length_penalty={"kind": "power", "alpha": 0.4}, **ENOUGH), 2),
        (BeamConfig(size=4, length_penalty={"kind": "power", "alpha": -0.5}, **ENOUGH), 4),
        (BeamConfig(stop="exact"), 5),
        (BeamConfig(size=3, length_penalty={"kind": "power", "alpha": 0.4}, stop="exact"), 2),
        (BeamConfig(size=4, length_penalty={"kind": "power", "alpha": -0.5}, stop="exact"), 1),
        (BeamConfig(size=4, length_penalty=NONE), 1),
        (BeamConfig(size=4, length_penalty=NONE, stop="exact"), 1),
        (BeamConfig(size=1), 1),
        (BeamConfig(max_factor=0.5, max_extra=0, **ENOUGH), 5),
        (BeamConfig(max_factor=0.5, max_extra=1, **ENOUGH), 1),
        (BeamConfig(max_factor=0.5, max_extra=1, stop="exact"), 3),
        (BeamConfig(max_length=7, length_penalty={"kind": "power", "alpha": 0.0}), 1),
        (GreedyConfig(max_factor=0.5, max_extra=1), 1),
        (GreedyConfig(min_length=6), 1),
        (GreedyConfig(min_factor=1.0, no_repeat_ngram=2), 1),
        (GreedyConfig(no_repeat_ngram=1), 1),
    ],
    ids=str,
)
def test_every_setting_gives_the_same(engines: Callable[..., Pair], search: SearchConfig, nbest: int) -> None:
    for changes in ({}, {"seed": 3, "tgt_words": 60, "residual": {"kind": "pre"}, "end": 0.05}):
        ours, theirs = engines(**changes)
        sources = random_sources(40, seed=7)
        wanted = request(search, len(sources), nbest)
        expected, found = ours.decode(sources, wanted), theirs.decode(sources, wanted)
        assert_same(expected, found, partial(score_in, ours, search, sources))


def test_a_sentence_has_its_own_limit_in_any_batch(engines: Callable[..., Pair]) -> None:
    """CTranslate2 has one limit for a call; the longest source must not lengthen the others' outputs."""
    _, theirs = engines(end=0.001)
    sources = [*random_sources(10, longest=3), random_sources(1, longest=12, seed=9)[0] * 3]
    for search in (
        GreedyConfig(max_extra=1),
        BeamConfig(max_extra=1, length_penalty=NONE),
        *(BeamConfig(max_extra=1, stop=stop) for stop in ("enough", "heuristic", "exact")),
    ):
        together = theirs.decode(sources, request(search, len(sources)))
        alone = [theirs.decode([ids], request(search, 1))[0] for ids in sources]
        assert_same(alone, together)
        assert all(len(own[0].tokens) <= 2 * len(ids) + 1 for own, ids in zip(together, sources, strict=True))


def test_attention_and_token_scores_when_asked(engines: Callable[..., Pair]) -> None:
    ours, theirs = engines()
    sources = random_sources(20)
    beam = BeamConfig(**ENOUGH)
    for wanted in (request(GreedyConfig(), 20, attention=True), request(beam, 20, 3, attention=True)):
        for own, other in zip(ours.decode(sources, wanted), theirs.decode(sources, wanted), strict=True):
            assert outputs(own) == outputs(other)
            for one, two in zip(own, other, strict=True):
                assert len(two.attention or []) == len(two.tokens)
                torch.testing.assert_close(torch.tensor(one.attention), torch.tensor(two.attention), atol=1e-5, rtol=0)
    plain = theirs.decode(sources, request(BeamConfig(), 20, token_scores=False))
    assert all(one.attention is None and one.token_scores == [] for own in plain for one in own)


def test_learned_positions_are_used_to_the_last(engines: Callable[..., Pair]) -> None:
    ours, theirs = engines(positions={"kind": "learned", "max_length": 13}, end=0.001)
    assert ours.src_limit == theirs.src_limit == 13
    sources = random_sources(30, longest=12)
    for search in (GreedyConfig(), BeamConfig()):
        wanted = request(search, 30)
        expected = ours.decode(sources, wanted)
        assert_same(expected, theirs.decode(sources, wanted))
        assert max(len(own[0].tokens) for own in expected) == 13


def test_an_output_without_any_token(engines: Callable[..., Pair]) -> None:
    for search in (GreedyConfig(max_length=0), BeamConfig(max_length=0)):
        for engine in engines():
            assert engine.decode(random_sources(2), request(search, 2)) == [[Hypothesis([], [], 0.0, False)]] * 2


def test_threads_do_not_disturb_each_other(engines: Callable[..., Pair]) -> None:
    _, theirs = engines()
    parts = batches(random_sources(600))
    wanted = [request(BeamConfig(), len(part)) for part in parts]
    with ThreadPoolExecutor(4) as pool:
        at_once = list(pool.map(theirs.decode, parts, wanted))
    for found, part, own in zip(at_once, parts, wanted, strict=True):
        assert_same(theirs.decode(part, own), found)


def test_int8_runs(tmp_path: Path) -> None:
    """How close it comes depends on the processor: see `test_every_quantization_is_close`."""
    ours, theirs = both(decided_model(), tmp_path / "fast", "int8")
    sources = random_sources(100)
    pairs = zip(*(engine.decode(sources, request(BeamConfig(), 100)) for engine in (ours, theirs)), strict=True)
    assert sum(outputs(own) == outputs(other) for own, other in pairs) > 10


def test_work_is_stopped_by_raising(engines: Callable[..., Pair]) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engines()[1].decode(random_sources(2), request(GreedyConfig(), 2, after_step=stop))


@pytest.mark.parametrize(
    ("search", "nbest", "reason"),
    [
        (BeamConfig(length_penalty={"kind": "gnmt"}), 1, "it has no length penalty gnmt"),
        (BeamConfig(size=1, stop="exact"), 1, "its beam of size 1 is greedy search"),
        (BeamConfig(length_penalty=NONE), 2, "may stop before the best 2 are found"),
        (BeamConfig(size=4, groups=2), 1, "it has no groups of beams"),
        (BeamConfig(coverage_penalty=0.2), 1, "coverage_penalty"),
        (BeamConfig(min_length=1), 1, "no_repeat_ngram there"),
        (BeamConfig(min_factor=0.5), 1, "no_repeat_ngram there"),
        (BeamConfig(no_repeat_ngram=3), 1, "no_repeat_ngram there"),
        (BeamConfig(size=4), 5, "a beam of size 4 cannot give 5 hypotheses"),
        (GreedyConfig(), 2, "greedy search gives one output, not 2"),
    ],
    ids=str,
)
def test_what_it_cannot_do_is_named(
    engines: Callable[..., Pair], search: SearchConfig, nbest: int, reason: str
) -> None:
    _, theirs = engines()
    wanted = request(search, 1, nbest)
    assert any(reason in each for each in ctranslate2_request_obstacles(wanted))
    with pytest.raises(UsageError, match=r"CTranslate2 cannot decode this way: .*; use the engine torch"):
        theirs.decode(random_sources(1), wanted)


def test_other_kinds_of_search_are_refused_by_name() -> None:
    others = set(searches.names()) - {"greedy", "beam"}
    assert others
    for kind in others:
        assert ctranslate2_search_obstacles(searches[kind]()) == [f"it has no search kind {kind}"]
    two = BeamConfig(groups=5, coverage_penalty=0.1)
    assert len(ctranslate2_search_obstacles(two)) == 2


def test_words_that_must_or_must_not_be_there_are_refused() -> None:
    for constraints in (Constraints(prefix=[7]), Constraints(forbidden=[[7]]), Constraints(required=[[7]])):
        wanted = DecodeRequest(GreedyConfig(), 1, [Constraints(), constraints])
        assert ctranslate2_request_obstacles(wanted) == ["it takes no prefix, forbidden or required words"]


def test_a_damaged_or_wrong_folder_is_refused(tmp_path: Path) -> None:
    saved = decided_model()
    save_model(tmp_path / "model", saved)
    with pytest.raises(CorruptFolder, match="was not exported for CTranslate2"):
        CTranslate2Engine(tmp_path / "model")
    export_ctranslate2(saved, tmp_path / "fast")
    weights = tmp_path / "fast" / "model.bin"
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(CorruptFolder, match=r"model\.bin: has changed"):
        CTranslate2Engine(tmp_path / "fast")


@pytest.mark.parametrize("search", [GreedyConfig(), BeamConfig()])
@pytest.mark.parametrize("scores", [True, False])
def test_a_model_that_says_nan(search: SearchConfig, scores: bool, tmp_path: Path) -> None:
    saved = decided_model()
    with torch.no_grad():
        output_matrix(saved.model.head).fill_(torch.nan)
    _, theirs = both(saved, tmp_path / "fast")
    with pytest.raises(QkvError, match="not a number"):
        theirs.decode(random_sources(2), request(search, 2, token_scores=scores))

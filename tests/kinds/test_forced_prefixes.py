"""A forced beginning is read in wide passes, and the search finds what it finds step by step."""

import random
from typing import Any

import pytest
import torch

from qkv.engines.base import DecodeRequest
from qkv.engines.torch_engine import TorchEngine
from qkv.inference.transformer import TransformerInference
from qkv.search import walk as forced
from qkv.search.base import Constraints, SearchConfig
from qkv.search.beam import BeamConfig
from qkv.search.greedy import GreedyConfig
from qkv.search.hypothesis import Hypothesis
from qkv.search.models import Ensemble, ModelSteps, force_by_steps
from qkv.search.sampling import SampleConfig
from tests.support.parts import CAUSAL_PARTS, sources
from tests.support.small import VOCAB, random_ids, small_model


@pytest.mark.parametrize(("kind", "attention"), [({}, False), *((kind, True) for kind in CAUSAL_PARTS)], ids=str)
def test_wide_passes_equal_steps(kind: dict[str, Any], attention: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said of the given tokens, and of those that follow them in every row."""
    monkeypatch.setattr("qkv.search.models.PIECE", 16)
    steps = ModelSteps(small_model(**kind).eval(), attention)
    src, keep = sources([4, 1, 7])
    tokens = torch.randint(5, VOCAB, (len(src), 41), generator=torch.Generator().manual_seed(1))
    tokens[:, 0] = 2
    wide, after = steps.force(tokens, steps.start(src, keep, 3), 3)
    single, slowly = force_by_steps(steps, tokens, steps.start(src, keep, 3), 3)
    torch.testing.assert_close(wide.log_probs, single.log_probs, atol=1e-5, rtol=1e-5)
    assert (wide.attention is None) is (single.attention is None) is (not attention)
    if wide.attention is not None:
        torch.testing.assert_close(wide.attention, single.attention, atol=1e-5, rtol=1e-5)
    for step in range(20):
        said = torch.full((3 * len(src),), 5 + step % 9)
        said[: len(src)] = tokens[:, -1] if step == 0 else 6
        ours, after = steps.step(said, after)
        theirs, slowly = steps.step(said, slowly)
        torch.testing.assert_close(ours.log_probs, theirs.log_probs, atol=1e-5, rtol=1e-5)


SEARCHES: list[SearchConfig] = [
    GreedyConfig(max_extra=60),
    BeamConfig(size=4, max_extra=60),
    BeamConfig(size=4, groups=2, max_extra=60),
    BeamConfig(size=3, coverage_penalty=0.2, max_extra=60, no_repeat_ngram=2),
    SampleConfig(samples=3, max_extra=60, seed=4),
]


def found(search: SearchConfig, engine: TorchEngine, lengths: list[int], nbest: int) -> list[list[Hypothesis]]:
    chance = random.Random(3)
    texts = [[*random_ids(chance, 5), 3] for _ in lengths]
    constraints = [Constraints(prefix=random_ids(chance, length)) for length in lengths]
    return engine.decode(texts, DecodeRequest(search=search, constraints=constraints, nbest=nbest))


@pytest.mark.parametrize("search", SEARCHES, ids=lambda each: f"{each.kind} {each.rows}")
@pytest.mark.parametrize("lengths", [[30], [30, 12, 17, 0], [90, 12, 20, 91]], ids=str)
def test_searches_find_the_same(search: SearchConfig, lengths: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal tokens and scores whether the prefix is read at once or forced token by token, alone or in a batch."""
    engine = TorchEngine([small_model(seed).eval() for seed in (1, 2)])
    nbest = min(search.rows, 2)
    at_once = found(search, engine, lengths, nbest)
    monkeypatch.setattr(forced, "LEAST", 10**9)
    monkeypatch.setattr(forced, "APART", 10**9)
    step_by_step = found(search, engine, lengths, nbest)
    for ours, theirs in zip(at_once, step_by_step, strict=True):
        assert [each.tokens for each in ours] == [each.tokens for each in theirs]
        for own, other in zip(ours, theirs, strict=True):
            assert own.score == pytest.approx(other.score, abs=1e-4)
            assert own.token_scores == pytest.approx(other.token_scores, abs=1e-5)
            assert own.ended == other.ended


@pytest.mark.parametrize("search", SEARCHES[:2], ids=lambda each: each.kind)
def test_a_long_prefix_takes_no_steps(search: SearchConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand tokens: four passes, and steps only for what the search itself says."""
    taken = 0
    extend = TransformerInference.extend

    def counted(*given: Any) -> Any:
        nonlocal taken
        taken += 1
        return extend(*given)

    monkeypatch.setattr(TransformerInference, "extend", counted)
    [[best, *_]] = found(search, TorchEngine([small_model().eval()]), [1000], 1)
    assert len(best.tokens) >= 1000
    assert taken <= len(best.token_scores) - 1000 + 1 + 4


def test_an_ensemble_weighs_the_given_tokens_as_it_does_at_each_step() -> None:
    members = [ModelSteps(small_model(seed).eval()) for seed in (1, 2, 3)]
    steps = Ensemble(members)
    src, keep = sources([4, 1, 7])
    tokens = torch.randint(5, VOCAB, (len(src), 21), generator=torch.Generator().manual_seed(1))
    wide, _ = steps.force(tokens, steps.start(src, keep, 2), 2)
    single, _ = force_by_steps(steps, tokens, steps.start(src, keep, 2), 2)
    torch.testing.assert_close(wide.log_probs, single.log_probs, atol=1e-5, rtol=1e-5)

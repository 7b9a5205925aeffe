"""Steps of fixed shapes say what steps of growing shapes say, for every part of the Transformer and every search."""

from typing import Any

import pytest
import torch

from qkv.core.errors import UsageError
from qkv.engines.torch_engine import TorchSettings
from qkv.inference import static
from qkv.inference.static import StaticState
from qkv.search.base import searches
from qkv.search.beam import BeamConfig
from qkv.search.greedy import GreedyConfig
from qkv.search.hypothesis import Hypothesis
from qkv.search.models import ModelSteps, StaticSteps
from qkv.text import SPECIAL
from qkv.translate.translator import Translator
from tests.support.decoded import EVERY_PART, LIMITS, SOURCES, decoded, depth_for
from tests.support.pretended import ELSEWHERE, pretended_device
from tests.support.searched import TOKENIZERS, VARIANTS, small
from tests.support.small import small_model
from tests.support.speaker import SHORT, assert_same, sentences, speaker

STATIC = TorchSettings(static_shapes=True)


def assert_equal(found: list[list[Hypothesis]], wanted: list[list[Hypothesis]]) -> None:
    for own, other in zip(found, wanted, strict=True):
        assert [one.tokens for one in own] == [one.tokens for one in other]
        assert [one.score for one in own] == pytest.approx([one.score for one in other], abs=1e-9)


@pytest.mark.parametrize("parts", EVERY_PART, ids=str)
def test_every_part(parts: dict[str, Any]) -> None:
    """In float64, with a beam, whose rows are reordered and dropped."""
    model = small_model(1, **depth_for(parts), **parts).double()
    beam = BeamConfig(size=3, **LIMITS)
    assert_equal(decoded(model, beam, STATIC), decoded(model, beam, TorchSettings()))


@pytest.mark.parametrize(("kind", "settings"), VARIANTS, ids=str)
def test_every_search(kind: str, settings: dict[str, Any]) -> None:
    saved, search = speaker(), searches[kind](**{**SHORT, **settings})
    plain, fixed = (Translator(saved, "torch", search, static_shapes=fixed) for fixed in (False, True))
    texts = sentences(40)
    assert_same(fixed.translate(texts), plain.translate(texts))


def test_prefixes_alignments_and_ensembles() -> None:
    models = [speaker(3), speaker(4)]
    for given in (models[:1], models):
        plain, fixed = (Translator(given, "torch", "greedy", static_shapes=fixed) for fixed in (False, True))
        texts, prefixes = sentences(12), ["aa bb cc aa bb cc aa bb cc"] * 12
        some, others = (one.translate(texts, alignment=True, prefixes=prefixes) for one in (fixed, plain))
        assert_same(some, others)
        for own, other in zip(some, others, strict=True):
            assert torch.allclose(torch.tensor(own.alignment), torch.tensor(other.alignment), atol=1e-5)


def test_a_cache_that_is_full_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static, "POSITIONS", 2)
    model = small_model(1).double()
    for search in (GreedyConfig(**LIMITS), BeamConfig(size=3, **LIMITS)):
        assert_equal(decoded(model, search, STATIC), decoded(model, search, TorchSettings()))


def test_shapes_stay_the_same_and_are_used_again() -> None:
    """Batches of 3 and 4 sentences have one set of tensors, whose addresses do not change."""
    steps = StaticSteps(small_model(1).eval())
    addresses = set()
    for sources in (SOURCES, [*SOURCES, SOURCES[0]]):
        src = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in sources], batch_first=True)
        state = steps.start(src, src != SPECIAL.pad)
        for _ in range(5):
            _, state = steps.step(torch.full((len(sources),), 7), state)
            assert isinstance(state, StaticState)
            slot = state.slot
            addresses.add((slot.cache.tensor.data_ptr(), slot.sources.key_value.data_ptr(), slot.tokens.data_ptr()))
            assert slot.cache.tensor.shape[1] == 4
    assert len(addresses) == 1


def test_only_the_newest_state_continues() -> None:
    steps, definition = StaticSteps(small_model(1).eval()), ModelSteps(small_model(1).eval())
    src = torch.tensor(SOURCES[:1])
    first, wanted = (each.start(src, src != SPECIAL.pad) for each in (steps, definition))
    bos = torch.tensor([SPECIAL.bos])
    _, second = steps.step(bos, first)
    # What was continued may be continued in another way, as after a prefix that turned out impossible.
    found, other = steps.step(bos, first)
    assert torch.allclose(found.log_probs, definition.step(bos, wanted)[0].log_probs, atol=1e-5)
    with pytest.raises(RuntimeError, match="continue from the newest one"):
        steps.step(bos, second)
    other.reorder(torch.tensor([0]), torch.tensor([0]))
    with pytest.raises(RuntimeError, match="continue from the newest one"):
        steps.step(bos, other)


def test_other_models_and_engines_are_refused() -> None:
    model = small("recurrent").build(TOKENIZERS).eval()
    with pytest.raises(UsageError, match="static shapes: only the autoregressive Transformer has them"):
        decoded(model, GreedyConfig(**LIMITS), STATIC)
    with pytest.raises(UsageError, match="precision and static shapes are settings of the engine torch"):
        Translator(speaker(), "ctranslate2", static_shapes=True).translate("aa")


@pytest.mark.parametrize("beam", [1, 3])
def test_a_step_elsewhere_waits_for_nothing(beam: int) -> None:
    """So that it can be recorded; and what it says is what the CPU says."""
    src = torch.tensor([SOURCES[0]] * 2)
    bos = torch.full((2 * beam,), SPECIAL.bos)
    steps = StaticSteps(small_model(1).eval())
    wanted, _ = steps.step(bos, steps.start(src, src != SPECIAL.pad, beam))
    with pretended_device() as waits:
        there = StaticSteps(small_model(1).eval().to(ELSEWHERE))
        state = there.start(src.to(ELSEWHERE), (src != SPECIAL.pad).to(ELSEWHERE), beam)
        tokens = bos.to(ELSEWHERE)
        waits.clear()
        found, after = there.step(tokens, state)
        assert not waits
        there.step(tokens, after.reorder(tokens.new_zeros(beam), tokens.new_zeros(1)))
        assert torch.allclose(found.log_probs.cpu(), wanted.log_probs, atol=1e-5)

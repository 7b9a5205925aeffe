"""Decoding with weights and activations of 16 bits: every kind runs, and scores are float32 and near those of fp32."""

from typing import Any

import pytest
import torch

from qkv.core.errors import UsageError
from qkv.engines.torch_engine import HALF, TorchEngine, TorchSettings
from qkv.models.base import Model
from qkv.models.heads.linear import output_matrix
from qkv.search.greedy import GreedyConfig
from qkv.search.models import SearchedModels
from qkv.search.refinement.search import RefineConfig
from qkv.text import SPECIAL
from qkv.translate.translator import Translator
from tests.support.decoded import EVERY_PART, LIMITS, SOURCES, decoded, depth_for
from tests.support.parallel import PARALLEL
from tests.support.searched import SMALL, TOKENIZERS, small
from tests.support.small import small_model
from tests.support.speaker import sentences, speaker

CLOSE = {"bf16": 0.15, "fp16": 0.02}
"""How far the log-probability of a token may be from that in float32, in models whose weights are random."""


def first_log_probs(model: Model) -> torch.Tensor:
    """Of the first token of each source."""
    steps = SearchedModels([model]).steps(False)
    src = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in SOURCES], batch_first=True)
    output, _ = steps.step(torch.full((len(src),), SPECIAL.bos), steps.start(src, src != SPECIAL.pad))
    return output.log_probs


@pytest.mark.parametrize("precision", HALF)
@pytest.mark.parametrize("parts", EVERY_PART, ids=str)
def test_every_part_of_the_transformer(parts: dict[str, Any], precision: Any) -> None:
    _compare(small_model(0, **depth_for(parts), **parts).eval(), precision)


@pytest.mark.parametrize("precision", HALF)
@pytest.mark.parametrize("kind", SMALL)
def test_every_other_model(kind: str, precision: Any) -> None:
    torch.manual_seed(0)
    _compare(small(kind).build(TOKENIZERS).eval(), precision)


def _compare(model: Model, precision: Any) -> None:
    before = [weight.clone() for weight in model.parameters()]
    half = TorchEngine([model], settings=TorchSettings(precision)).models[0]
    assert {weight.dtype for weight in half.parameters()} == {HALF[precision]}
    assert all(torch.equal(weight, own) for weight, own in zip(model.parameters(), before, strict=True))
    found, wanted = first_log_probs(half), first_log_probs(model)
    assert found.dtype == torch.float32
    known = wanted.isfinite()
    assert torch.equal(found.isfinite(), known)
    assert float((found - wanted)[known].abs().max()) < CLOSE[precision]
    # They are normalised in float32, whatever the logits were.
    assert torch.allclose(found.logsumexp(dim=1), torch.zeros(len(found)), atol=1e-5)
    for own in decoded(model, GreedyConfig(**LIMITS), TorchSettings(precision)):
        assert own[0].score == own[0].score


@pytest.mark.parametrize("precision", HALF)
@pytest.mark.parametrize("decoder", PARALLEL)
def test_models_that_write_all_at_once(decoder: str, precision: Any) -> None:
    model = small_model(0, encoder_layers=1, decoder_layers=1, decoder=decoder)
    found, wanted = (decoded(model, RefineConfig(), TorchSettings(each)) for each in (precision, "fp32"))
    for own, other in zip(found, wanted, strict=True):
        if own[0].tokens == other[0].tokens:
            assert own[0].score == pytest.approx(other[0].score, abs=0.5)


def test_translators_and_fixed_shapes() -> None:
    """Most outputs are those of float32."""
    saved = speaker(3, sharpness=1.0)
    texts = sentences(30)
    wanted = Translator(saved, "torch", "greedy").translate(texts)
    for settings in ({"precision": "bf16"}, {"precision": "fp16"}, {"precision": "fp16", "static_shapes": True}):
        found = Translator(saved, "torch", "greedy", **settings).translate(texts)
        same = sum(one.text == other.text for one, other in zip(found, wanted, strict=True))
        assert same >= 20


def test_a_weight_that_float16_cannot_hold_is_refused() -> None:
    saved = speaker()
    with torch.no_grad():
        output_matrix(saved.model.head)[0, 0] = 1e5
    with pytest.raises(UsageError, match="precision fp16: some weights are too large for it; use bf16 or fp32"):
        Translator(saved, "torch", precision="fp16").translate("aa")
    assert Translator(saved, "torch", precision="bf16").translate("aa").text is not None

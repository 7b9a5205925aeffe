"""Every kind of everything on a second device, which is pretended (tests/support/pretended.py).

Nothing may be made on the wrong device, all numbers are those of the CPU, and it is known how often the host waits.
"""

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from qkv.core.errors import UsageError
from qkv.data.tasks.base import TrainingBatch
from qkv.engines.base import DecodeRequest
from qkv.engines.torch_engine import TorchEngine
from qkv.layers.attention.recording import capture_attention
from qkv.models.base import Model
from qkv.models.draft_heads import draft_heads
from qkv.models.heads import heads
from qkv.models.kinds import models
from qkv.objectives.base import Objective
from qkv.objectives.risk.minimum_risk import risks
from qkv.search.base import Constraints, SearchConfig, searches
from qkv.search.hypothesis import Hypothesis
from qkv.search.refinement.search import RefineConfig
from qkv.text import SPECIAL
from qkv.training.optimizers import AdamWConfig, OptimizerConfig, optimizers
from qkv.training.step.precision import Precision
from qkv.training.step.update import FlatGradient, Task, add_gradients
from qkv.translate.translator import Translator
from tests.support.attentions import everywhere
from tests.support.parallel import PARALLEL, objective_of
from tests.support.parts import CAUSAL_PARTS
from tests.support.pretended import CPU, ELSEWHERE, MixedDevices, Waits, pretended_device, values_of
from tests.support.searched import SMALL, VARIANTS
from tests.support.small import batch_of, small_model
from tests.support.speaker import sentences, speaker
from tests.support.trained import ATTENTION, MODELS, OBJECTIVES, Build, of_other_data, other_models, seq2seq, teacher

LENGTHS = [(4, 3), (2, 5), (6, 1)]
SOURCES = [[5, 9, 8, 11, SPECIAL.eos], [7, SPECIAL.eos], [6, 6, 7, SPECIAL.eos]]
SHALLOW: dict[str, Any] = {"encoder_layers": 1, "decoder_layers": 1}
LIMITS: dict[str, Any] = {"max_factor": 1.0, "max_extra": 2}
Numbers = list[float]


def learned(
    model: Model,
    objective: Objective,
    batch: TrainingBatch,
    device: torch.device,
    updates: int,
    optimizer: OptimizerConfig,
) -> Numbers:
    """Train as the loop does: sums and norms of each update, then the loss of validation."""
    gradient, own, numbers = FlatGradient(model.train()), optimizer.build(model), Numbers()
    for update in range(1, updates + 1):
        torch.manual_seed(update)
        gradient.clear()
        task = Task(model, objective, update, Precision("fp32", device))
        sums = add_gradients(task, [batch.to(device)], device)
        found = torch.cat([sums, gradient.norm().to(sums)[None]]).tolist()
        gradient.finish(found[4], max(found[2], 1.0), 1.0)
        own.step(0.003)
        numbers += found
    with torch.no_grad():
        return numbers + objective.validation_loss(model.eval(), batch.to(device)).numbers.tolist()


def compare_training(
    build: Build,
    objective: Objective,
    batch: TrainingBatch,
    updates: int = 3,
    optimizer: OptimizerConfig | None = None,
) -> Waits:
    """In double precision on both devices; returns what the host waited for elsewhere."""
    optimizer = optimizer or AdamWConfig()
    wanted = learned(build().double(), objective, batch, CPU, updates, optimizer)
    with pretended_device() as waits:
        model = build().double().to(ELSEWHERE)
        waits.clear()
        found = learned(model, objective, batch, ELSEWHERE, updates, optimizer)
        for parameter in model.parameters():
            values_of(parameter)
    assert found == pytest.approx(wanted, rel=1e-7, abs=1e-9)
    return waits


def shallow(parts: dict[str, Any], seed: int = 0) -> Build:
    """A model with these parts: of one layer, unless they are for two."""
    depth = {} if any(word in str(parts) for word in ("wiring", "stack", "[2, 6]")) else SHALLOW
    return lambda: small_model(seed, **depth, **parts)


def names(waits: Waits) -> set[str]:
    """The lines that wait, without those of the tests."""
    return {line for line in waits if " " in line}


def test_the_two_devices_do_not_mix() -> None:
    with pretended_device() as waits:
        here, there = torch.ones(3), torch.ones(3).to(ELSEWHERE)
        assert there.device == ELSEWHERE
        with pytest.raises(MixedDevices):
            here + there
        with pytest.raises(MixedDevices):
            torch.rand(3, generator=torch.default_generator, device=ELSEWHERE)
        with pytest.raises(TypeError):
            there.numpy()
        assert not waits
        assert (there * torch.tensor(2.0)).tolist() == [2, 2, 2]
        assert bool((there > 0).all())
        assert there[there > 0].cpu().sum() == 3
        assert waits.total() == 4
        assert torch.tensor([1, 2], device=ELSEWHERE)[[1]].device == ELSEWHERE


KNOWN_TO_WAIT = ("lsh", "longformer")
"""Attention whose shapes depend on what it reads: LSH buckets, and the number of global tokens."""


@pytest.mark.parametrize("parts", MODELS, ids=str)
def test_training_of_every_part(parts: dict[str, Any]) -> None:
    """A Transformer of any parts reads the device once an update."""
    waits = compare_training(shallow(parts), teacher(), batch_of(LENGTHS))
    if not any(kind in str(parts) for kind in KNOWN_TO_WAIT):
        assert not names(waits), waits
        assert waits.total() == 3 + 1  # those of the updates and that of the validation


def test_three_updates_of_the_plain_model_wait_three_times() -> None:
    waits = compare_training(small_model, teacher(), batch_of(LENGTHS))
    assert waits == {"tolist": 4}


@pytest.mark.parametrize("kind", optimizers.names())
def test_every_optimiser(kind: str) -> None:
    waits = compare_training(shallow({}), teacher(), batch_of(LENGTHS), 3, optimizers[kind](weight_decay=0.1))
    assert not names(waits)


@pytest.mark.parametrize("kind", heads.names())
def test_every_head(kind: str) -> None:
    assert not names(compare_training(shallow({"head": kind}), teacher(), batch_of(LENGTHS)))


@pytest.mark.parametrize("settings", OBJECTIVES, ids=str)
def test_training_with_every_objective(settings: dict[str, Any]) -> None:
    compare_training(lambda: small_model(**SHALLOW), teacher(**settings), batch_of(LENGTHS))


@pytest.mark.parametrize("kind", risks.names())
def test_minimum_risk(kind: str) -> None:
    risk = risks[kind](samples=2).build(teacher(), SPECIAL)
    compare_training(lambda: small_model(**SHALLOW), risk, batch_of(LENGTHS))


@pytest.mark.parametrize("glancing", [None, {}], ids=["plain", "glancing"])
@pytest.mark.parametrize("kind", PARALLEL)
def test_training_of_every_decoder(kind: str, glancing: dict[str, Any] | None) -> None:
    compare_training(shallow({"decoder": kind}), objective_of(kind, glancing=glancing), batch_of(LENGTHS))


@pytest.mark.parametrize("kind", draft_heads.names())
def test_training_of_draft_heads(kind: str) -> None:
    settings = {"draft": {"kind": kind, "frozen": False}, **SHALLOW}
    compare_training(lambda: small_model(**settings), teacher(), batch_of(LENGTHS))


@pytest.mark.parametrize("kind", sorted(SMALL))
def test_training_of_every_model(kind: str) -> None:
    build, vocab = seq2seq(kind)
    compare_training(build, teacher(vocab), batch_of(LENGTHS, vocab=vocab))


def test_every_other_model_is_tried() -> None:
    assert set(other_models()) | {kind.split()[0] for kind in SMALL} == set(models.names())


@pytest.mark.parametrize("kind", sorted(other_models()))
def test_training_of_models_of_other_data(kind: str) -> None:
    build, objective, batch = of_other_data(kind)
    compare_training(build, objective, batch)


def test_dropout_elsewhere() -> None:
    """Other random numbers than on a CPU, drawn on the device; recomputed parts draw the same ones."""
    changes: dict[str, Any] = {"dropout": 0.3, "attention_dropout": 0.3, "feed_forward_dropout": 0.3}
    for stack in ("layers", "reversible"):
        with pretended_device() as waits:
            model = small_model(**changes, **SHALLOW, stack=stack, residual="pre").to(ELSEWHERE)
            waits.clear()
            found = learned(model, teacher(), batch_of(LENGTHS), ELSEWHERE, 2, AdamWConfig())
        assert not names(waits)
        assert found[5] != found[0]


def decoded(model: Model, search: SearchConfig, **request: Any) -> list[list[Hypothesis]]:
    wanted = DecodeRequest(search, min(search.rows, 2), [Constraints()] * len(SOURCES), **request)
    return TorchEngine([model]).decode(SOURCES, wanted)


def compare_search(build: Build, search: SearchConfig, **request: Any) -> Waits:
    wanted = decoded(build().eval(), search, **request)
    with pretended_device() as waits:
        model = build().eval().to(ELSEWHERE)
        waits.clear()
        found = decoded(model, search, **request)
    compare_hypotheses([one for own in found for one in own], [one for own in wanted for one in own])
    return waits


def compare_hypotheses(found: Sequence[Hypothesis], wanted: Sequence[Hypothesis]) -> None:
    assert [(one.tokens, one.ended) for one in found] == [(one.tokens, one.ended) for one in wanted]
    assert [one.score for one in found] == pytest.approx([one.score for one in wanted], abs=1e-4)


@pytest.mark.parametrize(("kind", "settings"), VARIANTS, ids=str)
def test_every_search(kind: str, settings: dict[str, Any]) -> None:
    search = searches[kind].model_validate({**LIMITS, **settings})
    torch.manual_seed(1)
    compare_search(lambda: small_model(3, share_embeddings="none", **SHALLOW), search)


@pytest.mark.parametrize("parts", CAUSAL_PARTS, ids=str)
def test_beam_search_of_every_part(parts: dict[str, Any]) -> None:
    compare_search(shallow(parts, 3), searches["beam"](size=2, **LIMITS))


@pytest.mark.parametrize("kind", sorted(SMALL))
def test_beam_search_of_every_model(kind: str) -> None:
    compare_search(seq2seq(kind)[0], searches["beam"](size=2, **LIMITS))


@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("kind", PARALLEL)
def test_every_decoder_in_one_pass_and_refined(kind: str, passes: int) -> None:
    compare_search(lambda: small_model(3, decoder=kind, **SHALLOW), RefineConfig(passes=passes))


def test_attention_of_a_search() -> None:
    compare_search(lambda: small_model(3, **SHALLOW), searches["greedy"](**LIMITS), attention=True)


@pytest.mark.parametrize("draft", ["jacobi", "input", *(f"own {kind}" for kind in draft_heads.names())])
def test_speculative_decoding(draft: str) -> None:
    word, *head = draft.split()
    settings = {"draft": head[0]} if head else {}
    given, search = sentences(4), {"kind": "greedy", **LIMITS}
    wanted = Translator(speaker(3, 2.0, **settings), "torch", search, draft=word).translate(given)
    with pretended_device():
        saved = speaker(3, 2.0, **settings)
        saved.model.to(ELSEWHERE)
        found = Translator(saved, "torch", search, draft=word).translate(given)
    assert [one.text for one in found] == [one.text for one in wanted]
    assert [one.score for one in found] == pytest.approx([one.score for one in wanted], abs=1e-4)


def test_scores_and_copies() -> None:
    pairs = [("aa ab", "ab aa"), ("cc", "cb ca ab")]
    wanted = Translator(speaker(3, 2.0), "torch").score(pairs)
    with pretended_device():
        saved = speaker(3, 2.0)
        saved.model.to(ELSEWHERE)
        found = Translator(saved, "torch").score(pairs)
    assert [one.tokens for one in found] == [one.tokens for one in wanted]
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.token_scores == pytest.approx(theirs.token_scores, abs=1e-4)


@pytest.mark.parametrize("setting", ATTENTION, ids=str)
def test_captured_attention(setting: dict[str, Any]) -> None:
    batch = batch_of(LENGTHS)
    model = small_model(**everywhere(setting)).eval()
    with torch.no_grad(), capture_attention(model) as wanted:
        model(batch)
    with pretended_device():
        model = small_model(**everywhere(setting)).eval().to(ELSEWHERE)
        with torch.no_grad(), capture_attention(model) as found:
            model(batch.to(ELSEWHERE))
        assert sorted(found) == sorted(wanted)
        for name in wanted:
            for ours, theirs in zip(found.passes[name], wanted.passes[name], strict=True):
                torch.testing.assert_close(ours.cpu(), theirs, atol=1e-5, rtol=0)


@pytest.mark.parametrize("device", ["cuda", "cuda:1", "xpu", "mps"])
def test_a_device_that_is_not_there_is_said_in_one_sentence(device: str) -> None:
    if torch.accelerator.is_available():
        pytest.skip("this machine has an accelerator")
    with pytest.raises(UsageError, match=rf"device {device}: PyTorch .* finds no {device[:3]}.* device.*; use device"):
        Translator(speaker(), device=device).translate("aa")


def test_the_models_of_a_caller_stay_where_they_are() -> None:
    wanted = Translator(speaker(3, 2.0), "torch").translate(sentences(2))
    with pretended_device():
        saved = speaker(3, 2.0)
        saved.model.to(ELSEWHERE)
        assert Translator(saved, "torch", device="cpu").translate(sentences(2)) == wanted
        assert {weight.device for weight in saved.model.parameters()} == {ELSEWHERE}
        assert Translator(saved, "torch").models.loaded == [saved], "no copy where none is needed"

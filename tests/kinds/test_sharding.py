"""Every kind of part, objective and model, sharded and recomputed: the gradients are those of the plain model.

One process here, whose shards are whole; tests/unit/training/test_sharded_runs.py has two and four.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import HashStore  # type: ignore[attr-defined]  # public, but not in its list of names
from torch.distributed.fsdp import FSDPModule

from qkv.core.errors import UsageError
from qkv.data.tasks.base import TrainingBatch
from qkv.layers.attention.scores import scores
from qkv.layers.residual import residuals
from qkv.models.base import Model
from qkv.models.draft_heads import draft_heads
from qkv.models.heads import heads
from qkv.models.transformer.stacks.base import separate_layers
from qkv.objectives.base import Objective
from qkv.training.sharded.gradient import ShardedGradient
from qkv.training.sharded.model import layers_of_their_own, shard
from qkv.training.step.precision import Precision
from qkv.training.step.recompute import recompute_layers
from qkv.training.step.update import BatchPart, Task, add_gradients
from qkv.training.team import Team
from tests.support.parallel import PARALLEL, objective_of
from tests.support.searched import SMALL
from tests.support.small import batch_of, small_model
from tests.support.trained import MODELS, OBJECTIVES, Build, of_other_data, other_models, seq2seq, teacher

LENGTHS = [(4, 3), (2, 5), (6, 1)]
FULL = Precision()


@pytest.fixture(scope="module", autouse=True)
def one_process() -> Iterator[None]:
    dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def gradients(
    model: Model, objective: Objective, batch: TrainingBatch, precision: Precision = FULL
) -> dict[str, Tensor]:
    torch.manual_seed(1)
    add_gradients(Task(model.train(), objective, 3, precision), [batch], model.device)
    found = {name: parameter.grad for name, parameter in model.named_parameters()}
    return {name: torch.zeros(()) if gradient is None else gradient for name, gradient in found.items()}


def sharded_gradients(
    model: Model, objective: Objective, batch: TrainingBatch, precision: Precision
) -> dict[str, Tensor]:
    gradient = ShardedGradient(shard(model.train(), objective, model.device, precision.low), Team())
    torch.manual_seed(1)
    gradient.add(Task(model, objective, 3, precision), [BatchPart(batch), BatchPart(batch, own=False)], model.device)
    return dict(zip(gradient.names, gradient.local(), strict=True))


def sent_types(model: Model) -> dict[str, torch.dtype]:
    """The type of each weight while it is in one piece in its layer."""
    names = [name for name, _ in model.named_parameters()]
    module = shard(model, teacher(), model.device, torch.bfloat16)
    for part in module.modules():
        if isinstance(part, FSDPModule):
            part.unshard()
    return {name: model.get_parameter(name).dtype for name in names}


def compare(
    build: Build,
    objective: Objective,
    batch: TrainingBatch,
    precision: Precision = FULL,
    tolerance: float = 1e-5,
) -> None:
    wanted, found = (of(build(), objective, batch, precision) for of in (gradients, sharded_gradients))
    assert any(bool(gradient.any()) for gradient in wanted.values())
    for name, gradient in wanted.items():
        largest = max(1.0, float(gradient.abs().max()))
        torch.testing.assert_close(
            found[name], gradient.expand_as(found[name]), rtol=1e-5, atol=tolerance * largest, msg=name
        )


def compare_both(build: Build, objective: Objective, batch: TrainingBatch) -> None:
    compare(build, objective, batch)
    if separate_layers(recomputed := build()):
        recompute_layers(recomputed)
        wanted, found = gradients(build(), objective, batch), gradients(recomputed, objective, batch)
        for name, gradient in wanted.items():
            torch.testing.assert_close(found[name], gradient, rtol=1e-6, atol=1e-6, msg=name)


CHOSEN = [parts for parts in MODELS if parts.keys() & {"positions", "wiring", "stack", "share_layers"} or not parts]
LEARNED = [settings for settings in OBJECTIVES if settings.keys() & {"consistency", "scheduled_sampling", "attention"}]
"""What changes how often a layer is called, and which weights it shares."""
NORMED: list[dict[str, Any]] = [{"residual": kind} for kind in residuals.names()]
NORMED += [{"encoder_attention": {"kind": "full", "score": kind}} for kind in scores.names()]


@pytest.mark.parametrize("parts", CHOSEN, ids=str)
def test_every_part(parts: dict[str, Any]) -> None:
    compare_both(lambda: small_model(**{"dropout": 0.1, **parts}), teacher(), batch_of(LENGTHS))


@pytest.mark.parametrize("parts", CHOSEN + NORMED, ids=str)
def test_matrices_are_sent_in_16_bits(parts: dict[str, Any]) -> None:
    """Autocast rounds the matrices before they are used, FSDP before they are sent: the same numbers.

    Where a layer is used several times in a pass, its gradients are summed in 16 bits or not.
    """
    tolerance = 2e-2 if parts.keys() & {"stack", "share_layers"} else 1e-5
    for precision in ("bf16", "fp16"):
        compare(lambda: small_model(**parts), teacher(), batch_of(LENGTHS), Precision(precision), tolerance)


def test_which_weights_are_sent_in_16_bits() -> None:
    """Those of the matrices in layers; not norms, nor layers with weights of other kinds, nor embeddings."""
    sent = sent_types(small_model(residual="pre"))
    assert {name for name, kind in sent.items() if kind == torch.float32} == {
        name for name in sent if "residual" in name or not name.startswith(("encoder.layers.", "decoder.layers."))
    }
    assert {kind for name, kind in sent.items() if ".layers." in name} == {torch.float32, torch.bfloat16}
    assert set(sent_types(small_model(positions="shaw")).values()) == {torch.float32}


@pytest.mark.parametrize("kind", heads.names())
def test_every_head(kind: str) -> None:
    compare_both(lambda: small_model(head=kind), teacher(), batch_of(LENGTHS))


@pytest.mark.parametrize("settings", LEARNED, ids=str)
def test_every_objective(settings: dict[str, Any]) -> None:
    compare_both(lambda: small_model(dropout=0.1), teacher(**settings), batch_of(LENGTHS))


@pytest.mark.parametrize("kind", PARALLEL)
def test_every_decoder(kind: str) -> None:
    compare_both(lambda: small_model(decoder=kind), objective_of(kind), batch_of(LENGTHS))


@pytest.mark.parametrize("kind", draft_heads.names())
def test_draft_heads(kind: str) -> None:
    compare_both(lambda: small_model(draft={"kind": kind, "frozen": False}), teacher(), batch_of(LENGTHS))


@pytest.mark.parametrize("kind", sorted(SMALL))
def test_every_model(kind: str) -> None:
    build, vocab = seq2seq(kind)
    compare_both(build, teacher(vocab), batch_of(LENGTHS, vocab=vocab))


@pytest.mark.parametrize("kind", sorted(other_models()))
def test_models_of_other_data(kind: str) -> None:
    build, objective, batch = of_other_data(kind)
    compare_both(lambda: build().double(), objective, batch)


def test_layers_are_sharded_one_by_one() -> None:
    """Those that share nothing and are called as often in every pass; the others are in one group with the rest."""
    assert len(layers_of_their_own(small_model())) == 4
    assert len(layers_of_their_own(small_model(share_layers=True))) == 2
    assert not layers_of_their_own(small_model(stack="adaptive"))
    assert not layers_of_their_own(small_model(stack="reversible", residual="pre"))


def test_a_model_without_layers_is_not_recomputed() -> None:
    with pytest.raises(UsageError, match="has no layers that can be computed again one by one; leave it out"):
        recompute_layers(small_model(stack="adaptive"))


def test_a_recomputed_layer_keeps_less() -> None:
    """Bytes that the forward pass keeps for the backward pass, weights included."""

    def kept(recomputed: bool) -> int:
        model, batch, sizes = small_model(encoder_layers=6), batch_of([(60, 1)] * 8), dict[int, int]()
        if recomputed:
            recompute_layers(model)

        def pack(tensor: Tensor) -> Tensor:
            sizes[tensor.data_ptr()] = tensor.nbytes
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            model.encode(batch.src, batch.src_keep)
        return sum(sizes.values())

    assert kept(True) < kept(False) / 3

"""The importance of heads by the gradient of the loss (Michel et al. 2019)."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from qkv.core.progress import Reporter, SilentReporter
from qkv.data.batch import Batch
from qkv.engines.torch_engine import evaluating
from qkv.functional.losses import no_smoothing
from qkv.models.saved.folder import SavedModel
from qkv.models.transformer.head_ids import HeadId, own_attentions
from qkv.models.transformer.model import Transformer
from qkv.objectives.teacher_forcing import TeacherForcing
from qkv.visual.heads.corpus import HeadCorpus
from qkv.visual.heads.weights import require_heads


@contextmanager
def head_factors(model: Transformer, sentences: int) -> Iterator[list[Tensor]]:
    """ξ [B, H] for each attention with weights of its own: inside, the output of head h counts ξ_h times in a pass.

    They are ones, and a gradient can be taken for them.
    """
    with ExitStack() as stack:
        factors = []
        for place in own_attentions(model):
            weight = place.attention.output.weight
            factor = weight.new_ones(sentences, place.attention.num_heads).requires_grad_()
            hook = place.attention.output.register_forward_pre_hook(_times(factor))
            stack.callback(hook.remove)
            factors.append(factor)
        yield factors


def _times(factor: Tensor) -> Any:
    """A hook: the heads side by side [B, Q, H E], each times its factor."""

    def multiply(module: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
        heads = inputs[0].unflatten(-1, (factor.shape[1], -1))
        return ((heads * factor[:, None, :, None]).flatten(-2),)

    return multiply


def gradients_of_factors(model: Transformer, batch: Batch, objective: TeacherForcing) -> list[Tensor]:
    """∂L/∂ξ_h [B, H] for each attention, L the negative log-likelihood of each sentence's target."""
    with evaluating([model]), torch.enable_grad(), head_factors(model, len(batch)) as factors:
        loss = objective.validation_loss(model, batch).sum
        return list(torch.autograd.grad(loss, factors))


def head_importance(saved: SavedModel, corpus: HeadCorpus, reporter: Reporter | None = None) -> dict[HeadId, float]:
    """I_h = mean over sentences of |∂L/∂ξ_h|, divided by the ℓ2 norm over the heads of its attention."""
    model = require_heads(saved.model)
    objective = TeacherForcing(no_smoothing(len(saved.tokenizers.tgt)))
    places = list(own_attentions(model))
    totals = [torch.zeros(place.attention.num_heads, dtype=torch.float64) for place in places]
    counting, done = (reporter or SilentReporter()).counting("Importance of heads"), 0
    for batch in corpus.batches(model, saved.tokenizers, sum(len(total) for total in totals)):
        for total, gradient in zip(totals, gradients_of_factors(model, batch, objective), strict=True):
            total += gradient.abs().double().sum(dim=0)
        done += len(batch)
        counting(done, corpus.limit)
    found: dict[HeadId, float] = {}
    for place, total in zip(places, totals, strict=True):
        norm = float(total.norm()) or 1.0
        found |= {head: float(value) / norm for head, value in zip(place.heads, total, strict=True)}
    return found

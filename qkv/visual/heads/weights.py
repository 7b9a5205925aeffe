"""The attention weights of all heads of a Transformer for a batch, by side."""

from dataclasses import dataclass

import torch
from torch import Tensor

from qkv.core.errors import UsageError
from qkv.data.batch import Batch
from qkv.engines.torch_engine import evaluating
from qkv.layers.attention.recording import capture_attention
from qkv.models.base import Model
from qkv.models.parallel.base import ParallelModel
from qkv.models.transformer.head_ids import SIDES, HeadId, Side, attentions_of
from qkv.models.transformer.model import Transformer, require_transformer


@dataclass(frozen=True)
class SideWeights:
    """The weights of all heads of one side."""

    side: Side
    weights: Tensor
    """[B, N, Q, K], the heads of the first layer first."""
    visible: Tensor
    """[B, Q, K], True = a real query may attend to this real key."""
    keys: Tensor
    """[B, K], the ids of the keys."""

    @property
    def queries(self) -> Tensor:
        """[B, Q], True = a real query."""
        return self.visible.any(dim=-1)


def require_heads(model: Model) -> Transformer:
    """`model`, if its heads can be analysed: a Transformer that reads given targets, one state after each layer."""
    found = require_transformer(model, "the analysis of heads")
    if isinstance(found, ParallelModel):
        raise UsageError(f"a model of the kind {found.kind} reads no given target; give an autoregressive one")
    if found.encoder.depth.ends_early:
        raise UsageError(
            "the stack adaptive has another depth for each sentence; the analysis of heads needs a fixed one"
        )
    return found


def heads_of(model: Transformer) -> dict[Side, list[HeadId]]:
    """The heads of each side in the order of `SideWeights`."""
    found: dict[Side, list[HeadId]] = {side: [] for side in SIDES}
    for place in attentions_of(model):
        found[place.side] += place.heads
    return found


@torch.no_grad()
def weights_of(model: Transformer, batch: Batch) -> list[SideWeights]:
    """What every head of each side attends to while the model reads both sides of a batch."""
    with evaluating([model]), capture_attention(model) as record:
        model(batch)
    passes = {name: iter(tensors) for name, tensors in record.passes.items()}
    found: dict[Side, list[Tensor]] = {side: [] for side in SIDES}
    for side, _, attention in attentions_of(model):
        weights = next(passes[attention.attention_id.name])
        found[side].append(model.decoder.wiring.fold(weights) if side == "cross" else weights)
    src, tgt = batch.src_keep, batch.tgt_weight > 0
    causal = torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool, device=tgt.device).tril()
    seen = {
        "encoder": src[:, :, None] & src[:, None],
        "decoder": tgt[:, :, None] & tgt[:, None] & causal,
        "cross": tgt[:, :, None] & src[:, None],
    }
    keys = {"encoder": batch.src, "decoder": batch.tgt_in, "cross": batch.src}
    return [SideWeights(side, torch.cat(found[side], dim=1), seen[side], keys[side]) for side in SIDES]

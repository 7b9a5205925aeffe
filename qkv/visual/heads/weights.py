"""The attention weights of all heads of a model for a batch, by side."""

from dataclasses import dataclass

import torch
from torch import Tensor

from qkv.core.errors import UsageError
from qkv.data.batch import Batch
from qkv.engines.torch_engine import evaluating
from qkv.layers.attention.recording import capture_attention
from qkv.models.base import Model
from qkv.models.language.masked import TextModel
from qkv.models.parallel.base import ParallelModel
from qkv.models.transformer.head_ids import SIDES, AttentionPlace, HeadId, Side, attentions_of
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
    """`model`, if it is a Transformer that reads given targets and has one state after each layer."""
    found = require_transformer(model, "the analysis of heads")
    if isinstance(found, ParallelModel):
        raise UsageError(f"a model of the kind {found.kind} reads no given target; give an autoregressive one")
    if found.encoder.depth.ends_early:
        raise UsageError(
            "the stack adaptive has another depth for each sentence; the analysis of heads needs a fixed one"
        )
    return found


def analysed(model: Model) -> Transformer | TextModel:
    """`model`, if its heads can be analysed: a Transformer, or the encoder of a text model such as BERT."""
    return model if isinstance(model, TextModel) else require_heads(model)


def heads_of(model: Transformer | TextModel) -> dict[Side, list[HeadId]]:
    """The heads of each side in the order of `SideWeights`; a side without heads is left out."""
    found: dict[Side, list[HeadId]] = {}
    for place in _places(model):
        found.setdefault(place.side, []).extend(place.heads)
    return {side: found[side] for side in SIDES if side in found}


def _places(model: Transformer | TextModel) -> list[AttentionPlace]:
    if isinstance(model, TextModel):
        layers = model.encoder.stack.in_order()
        return [AttentionPlace("encoder", number, layer.attention) for number, layer in enumerate(layers, start=1)]
    return list(attentions_of(model))


@torch.no_grad()
def weights_of(model: Transformer | TextModel, batch: Batch) -> list[SideWeights]:
    """What every head of each side attends to while the model reads a batch."""
    with evaluating([model]), capture_attention(model) as record:
        model(batch)
    passes = {name: iter(tensors) for name, tensors in record.passes.items()}
    found: dict[Side, list[Tensor]] = {}
    for place in _places(model):
        weights = next(passes[place.attention.attention_id.name])
        if place.side == "cross":
            assert isinstance(model, Transformer)
            weights = model.decoder.wiring.fold(weights)
        found.setdefault(place.side, []).append(weights)
    src, tgt = batch.src_keep, batch.tgt_weight > 0
    causal = torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool, device=tgt.device).tril()
    seen = {
        "encoder": src[:, :, None] & src[:, None],
        "decoder": tgt[:, :, None] & tgt[:, None] & causal,
        "cross": tgt[:, :, None] & src[:, None],
    }
    keys = {"encoder": batch.src, "decoder": batch.tgt_in, "cross": batch.src}
    return [SideWeights(side, torch.cat(found[side], dim=1), seen[side], keys[side]) for side in SIDES if side in found]

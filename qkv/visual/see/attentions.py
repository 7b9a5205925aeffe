"""The attentions of one pass: the weights of each and, where they are the paper's, all that leads to them."""

from dataclasses import dataclass

import torch
from torch import Tensor

from qkv.functional.attention import attention_weights, merge_heads
from qkv.layers.attention import Attention
from qkv.layers.attention.base import share_heads
from qkv.layers.attention.head_passes import HeadPass, HeadPasses
from qkv.layers.attention.recording import AttentionRecord
from qkv.models.base import Model
from qkv.models.transformer.model import Transformer

SIDES = "encoder", "decoder", "cross"
CLOSE = 1e-4
"""Weights that differ by less are those of the equation, for which single precision is taken."""


@dataclass(frozen=True)
class HeadVectors:
    """The vectors of all heads, [H, n, E] each, and what is added to the scores or forbids them."""

    q: Tensor
    k: Tensor
    v: Tensor
    bias: Tensor | None
    """[H, Q, K], added to the scaled scores."""
    mask: Tensor | None
    """[Q, K], True = may attend; None: every key."""
    joined: Tensor | None
    """[Q, H E], the heads' outputs side by side, if they are not the weighted sums of the values alone."""


@dataclass(frozen=True)
class AttentionPass:
    """One pass through one attention."""

    name: str
    side: str
    """encoder, decoder or cross."""
    layer: int
    """Counted from 0; a layer that several depths share counts once for each."""
    weights: Tensor
    """[H, Q, K]"""
    vectors: HeadVectors | None
    """None: its weights are not softmax(q k / sqrt(E))."""


def attention_passes(model: Model, record: AttentionRecord, heads: HeadPasses) -> list[AttentionPass]:
    """All attentions of one recorded pass over one sentence: encoder, decoder, cross, each by layer."""
    found = [
        _pass(model, name, place, weights, heads.get(name, []))
        for name, passes in record.passes.items()
        for place, weights in enumerate(passes if isinstance(model, Transformer) else [record[name]])
    ]
    return sorted(found, key=lambda each: (SIDES.index(each.side), each.layer))


def _pass(model: Model, name: str, place: int, weights: Tensor, heads: list[HeadPass]) -> AttentionPass:
    """`place` counts the passes of one attention: a layer that several depths share has several."""
    layer = next((int(part) for part in name.split(".") if part.isdigit()), 0)
    if not isinstance(model, Transformer):
        return AttentionPass(name, "cross", layer, weights[0].float(), None)
    side = "cross" if name.endswith("cross_attention") else name.split(".")[0]
    layer += place * len((model.encoder if side == "encoder" else model.decoder).layers)
    # A wiring may let a layer attend to several states of each source token.
    shown = model.decoder.wiring.fold(weights) if side == "cross" else weights
    vectors, module = None, model.get_submodule(name)
    if isinstance(module, Attention) and len(heads) > place and shown.shape == weights.shape:
        vectors = _vectors(module, heads[place], weights[0])
    return AttentionPass(name, side, layer, shown[0].float(), vectors)


def _vectors(attention: Attention, made: HeadPass, weights: Tensor) -> HeadVectors | None:
    """None if the equation with these vectors does not give the weights."""
    context, heads = made.context, len(weights)
    q, k, v = made.q, share_heads(made.k, heads), share_heads(made.v, heads)
    bias = attention.positions.bias(q, context.q_position_ids, context.k_position_ids)
    mask = context.mask
    if mask is None or mask.shape[-2:] != weights.shape[-2:]:
        mask = torch.ones_like(weights[:1], dtype=torch.bool)[None]
    for allowed in (mask, mask & (weights > 0).any(dim=0)):
        if (attention_weights(q, k, allowed, bias)[0] - weights).abs().max() < CLOSE:
            joined = merge_heads(weights[None].to(v.dtype) @ v)[0]
            term = attention.positions.value_term(weights[None], context.q_position_ids, context.k_position_ids)
            return HeadVectors(
                q[0],
                k[0],
                v[0],
                None if bias is None else bias[0],
                None if bool(allowed.all()) else allowed[0, 0],
                None if term is None else joined + merge_heads(term)[0],
            )
    return None

"""One setting for every form of attention, and the dense definition of each."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from qkv.functional.attention import attention_weights, merge_heads, split_heads
from qkv.functional.masks import Projected, both, build_mask, causal, longformer
from qkv.layers.attention import (
    Attention,
    CausalAttention,
    LongformerAttention,
    MultiHeadAttention,
    TruncatedAttention,
    attentions,
)
from qkv.layers.attention.context import AttentionContext
from qkv.layers.attention.normalizers import normalizers
from qkv.layers.attention.scores import scores
from qkv.models.transformer.config import TransformerConfig
from tests.support.small import stir

Setting = dict[str, Any]
WIDTH, HEADS, DEPTH = 16, 4, 1
SCORES: list[Setting] = [{"kind": "full", "score": kind} for kind in scores.names() if kind != "scaled_dot"]
NORMALIZERS: list[Setting] = [{"kind": "full", "normalizer": kind} for kind in normalizers.names() if kind != "softmax"]
FULL: list[Setting] = [
    {"kind": "full"},
    *SCORES,
    *NORMALIZERS,
    {"kind": "full", "score": "additive", "normalizer": "entmax", "kv_heads": 2},
    {"kind": "full", "kv_heads": 1},
    {"kind": "full", "kv_heads": 2},
]
WINDOWS: list[Setting] = [
    {"kind": "truncated", "left": 3},
    {"kind": "truncated", "left": 2, "right": 0, "dilation": 3},
    {"kind": "longformer", "window": [2, 6], "dilation": [2, 1]},
]
GLOBAL: list[Setting] = [
    {"kind": "longformer", "window": 2, "global_positions": [0]},
    {"kind": "longformer", "window": 4, "dilation": 2, "global_positions": [1, 6]},
]
LSH: Setting = {"kind": "lsh", "chunk": 2}
FOLLOWING: list[Setting] = [
    {"kind": kind, **attentions[kind].EXAMPLE} for kind in attentions.names() if attentions.example(kind).follows_output
]
"""Those that are for cross-attention alone."""
CROSS, CAUSAL = [*FULL, *FOLLOWING], [*FULL, *WINDOWS, {"kind": "causal"}]
LISTED = [*CAUSAL, *GLOBAL, LSH]
OTHERS: list[Setting] = [
    {"kind": kind, **attentions[kind].EXAMPLE}
    for kind in attentions.names()
    if kind not in {setting["kind"] for setting in [*LISTED, *FOLLOWING]}
]
"""Those that nobody has listed above."""
ENCODER = [*LISTED, *OTHERS]

UNLIKE_THE_PAPER: list[tuple[Setting, str]] = [
    ({"kind": "truncated", "left": 4}, "kind truncated"),
    ({"kind": "longformer", "window": 4}, "kind longformer"),
    ({"kind": "lsh"}, "kind lsh"),
    ({"kind": "causal"}, "kind causal"),
    ({"kind": "full", "score": "additive"}, "score additive"),
    ({"kind": "full", "normalizer": "entmax"}, "normalizer entmax"),
    ({"kind": "full", "kv_heads": 1}, "kv_heads 1"),
]
"""Settings that no other program has, and what an export calls them."""


def definition(module: Attention, x: Tensor, context: AttentionContext) -> Tensor:
    """The same self-attention by its equation: every score is computed, a mask says which count."""
    if isinstance(module, LongformerAttention):
        return _longformer(module, x, context)
    heads = module.heads(x, context)
    q, k, v = heads[0], *(part.repeat_interleave(module.num_heads // module.kv_heads, 1) for part in heads[1:])
    if isinstance(module, TruncatedAttention):
        seen = module.predicate if context.predicate is None else both(module.predicate, context.predicate)
        mask = build_mask(seen, context.q_pos, context.k_pos, context.keep)
        weights = attention_weights(
            q, k, mask, module.positions.bias(q, context.q_position_ids, context.k_position_ids)
        )
    else:
        assert isinstance(module, MultiHeadAttention)
        if isinstance(module, CausalAttention):
            context = replace(context, predicate=causal)
        q, k = module.score.queries(q), module.score.keys(k)
        logits, bias = module.score(q, k), module.positions.bias(q, context.q_position_ids, context.k_position_ids)
        weights = module.normalize(logits if bias is None else logits + bias, context.mask)
    return module.output(merge_heads(_read(module, weights, v, context)))


def _read(module: Attention, weights: Tensor, v: Tensor, context: AttentionContext) -> Tensor:
    mixed = module.positions.value_term(weights, context.q_position_ids, context.k_position_ids)
    return weights @ v if mixed is None else weights @ v + mixed


def _longformer(module: LongformerAttention, x: Tensor, context: AttentionContext) -> Tensor:
    """The equation; a scheme that mixes into the context needs the weights of its two attentions."""
    turn, position_ids = module.positions.rotate, context.k_position_ids
    far_q, far_k, far_v = (
        split_heads(linear(x), module.num_heads)
        for linear in (module.query_global, module.key_global, module.value_global)
    )
    near, far = (
        Projected(*module.heads(x, context)),
        Projected(turn(far_q, position_ids), turn(far_k, position_ids), far_v),
    )
    window = build_mask(module.predicate, context.q_pos, context.k_pos)
    assert window is not None
    keep = torch.ones(x.shape[:2], dtype=torch.bool) if context.keep is None else context.keep
    near_bias, far_bias = (module.positions.bias(heads.queries, position_ids, position_ids) for heads in (near, far))
    chosen = module.is_global(context, len(x))
    if not module.positions.has_value_term:
        return module.output(merge_heads(longformer(near, far, window, chosen, keep, near_bias, far_bias)))
    seen = (window | chosen[:, None, None]) & keep[:, None, None]
    near_weights = attention_weights(near.queries, near.keys, seen, near_bias)
    far_weights = attention_weights(far.queries, far.keys, keep[:, None, None], far_bias)
    from_near, from_far = (
        _read(module, near_weights, near.values, context),
        _read(module, far_weights, far.values, context),
    )
    return module.output(merge_heads(from_far.where(chosen[:, None, :, None], from_near)))


def build(setting: Setting, scheme: str = "none", looks_back: bool = False, dropout: float = 0.0) -> Attention:
    config = TransformerConfig(
        d_model=WIDTH, num_heads=HEADS, encoder_layers=2, encoder_attention=setting, positions=scheme
    )
    torch.manual_seed(0)
    position_ids = config.positions.build(WIDTH, HEADS, looks_back).for_layer()
    module = config.encoder_attention.build(WIDTH, HEADS, dropout, position_ids, DEPTH).double()
    stir(module)
    return module.eval()


def ragged(lengths: list[int]) -> Tensor:
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


def everywhere(setting: Setting) -> dict[str, Any]:
    """The kind at all places of a model where it may stand."""
    places = {"encoder_attention": ENCODER, "decoder_attention": CAUSAL, "cross_attention": CROSS}
    if setting in FOLLOWING:
        # Some of them need an encoder that does not look ahead.
        return {"num_heads": HEADS, "encoder_attention": "causal", "cross_attention": setting}
    return {"num_heads": HEADS, **{place: setting for place, settings in places.items() if setting in settings}}

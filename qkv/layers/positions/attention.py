"""Attention with the terms of a position scheme, for any mask."""

from torch import Tensor

from qkv.functional.attention import attention_weights
from qkv.kernels.attention import attention
from qkv.kernels.dropout import dropout as drop
from qkv.kernels.flex_bias import flex_bias_attention
from qkv.kernels.window.flex import suits_flex
from qkv.layers.positions.base import Positions


def attention_with_positions(
    positions: Positions,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    q_pos: Tensor,
    k_pos: Tensor,
    dropout: float = 0.0,
) -> Tensor:
    """softmax(Q Kᵀ / √d_k + bias) V, plus the scheme's value term.

    Queries [B, H, Q, E] and keys [B, H, K, E] are rotated already. Only a scheme with a value term needs the weights.
    """
    if dropout == 0 and suits_flex(q) and (of_distance := positions.bias_of_distance()) is not None:
        return flex_bias_attention(q, k, v, of_distance, q_pos, k_pos, mask)
    bias = positions.bias(q, q_pos, k_pos)
    if not positions.has_value_term:
        return attention(q, k, v, mask, bias, dropout)
    weights = drop(attention_weights(q, k, mask, bias).to(v.dtype), dropout)
    output, mixed = weights @ v, positions.value_term(weights, q_pos, k_pos)
    return output if mixed is None else output + mixed

"""Attention with what a position scheme adds to it: the same for every pattern of keys."""

from torch import Tensor

from qkv.functional.attention import attention_weights
from qkv.kernels.attention import attention
from qkv.kernels.dropout import dropout as drop
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
    """softmax(Q Kᵀ / √d_k + bias) V, plus what the scheme reads with the same weights.

    Queries [B, H, Q, E] and keys [B, H, K, E] are rotated already. Only a scheme that mixes needs the weights openly.
    """
    bias = positions.bias(q, q_pos, k_pos)
    if not positions.has_value_term:
        return attention(q, k, v, mask, bias, dropout)
    weights = drop(attention_weights(q, k, mask, bias).to(v.dtype), dropout)
    output, mixed = weights @ v, positions.value_term(weights, q_pos, k_pos)
    return output if mixed is None else output + mixed

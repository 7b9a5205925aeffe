"""Plain attention of many positions at once, without gradients and with as few operations as it needs: for one short
text, calling an operation takes as long as computing it.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from qkv.layers.attention.base import ForInference
from qkv.layers.attention.inference import InferenceAttention


def is_plain(attention: ForInference) -> bool:
    """Whether PyTorch's kernel is all that it needs once queries and keys are turned."""
    return type(attention) is InferenceAttention and attention.group == 1 and not attention.biased


def hiding(keep: Tensor | None, like: Tensor) -> Tensor | None:
    """[B, 1, 1, K], 0 for a key of `keep` [B, K] and -inf for none, as PyTorch's kernel adds it; None: all are seen."""
    if keep is None or bool(keep.all()):
        return None
    return unseen(keep[:, None, None], like)


def unseen(mask: Tensor, like: Tensor) -> Tensor:
    """The same for any mask [B, 1, Q, K], in which True is what may be seen."""
    return like.new_zeros(mask.shape).masked_fill_(~mask, -torch.inf)


class Around:
    """Plain self-attention of `length` positions, given as rows [B length, D] or as [B, length, D].

    `pos` [length] or [B, length] is where they stand.
    """

    def __init__(self, attention: ForInference, length: int, hidden: Tensor | None, pos: Tensor) -> None:
        assert isinstance(attention, InferenceAttention)
        self.attention = attention
        self.shape = (-1, length, 3, attention.num_heads, attention.head_width)
        self.hidden = hidden
        self.pos = pos

    def __call__(self, x: Tensor) -> Tensor:
        attention = self.attention
        queries, keys, values = attention.query_key_value(x).view(self.shape).transpose(1, 3).unbind(2)
        if attention.turns:
            queries, keys = (attention.positions.rotate(part, self.pos) for part in (queries, keys))
        context = F.scaled_dot_product_attention(queries, keys, values, self.hidden)
        return attention.output(context.transpose(1, 2).reshape(x.shape))


class Across:
    """Attention of `length` positions, given as `Around` takes them, to the keys and values of their sources.

    `memory` [2, B, KV heads, S, E]; `hidden` as `hiding` gives it. The positions of a sentence attend to its source as
    beams do.
    """

    def __init__(self, attention: ForInference, length: int, memory: Tensor, hidden: Tensor | None) -> None:
        self.attention = attention
        self.length = length
        self.memory = memory
        self.hidden = hidden

    def __call__(self, x: Tensor) -> Tensor:
        attention = self.attention
        if not is_plain(attention):
            return attention.attend(x.flatten(0, -2), self.memory, self.length, self.hidden).view(x.shape)
        assert isinstance(attention, InferenceAttention)
        queries = attention.query(x).view(-1, self.length, attention.num_heads, attention.head_width).transpose(1, 2)
        keys, values = self.memory.unbind(0)
        context = F.scaled_dot_product_attention(queries, keys, values, self.hidden)
        return attention.output(context.transpose(1, 2).reshape(x.shape))

    def weights(self, x: Tensor) -> Tensor:
        """The mean of its heads, [B length, S]."""
        return self.attention.weights(x.flatten(0, -2), self.memory, self.length, self.hidden)

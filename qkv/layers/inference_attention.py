"""Multi-head attention without gradients: the projections as one product, their weights bound as plain tensors."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from qkv.functional.attention import attention_weights, merge_heads, split_heads
from qkv.kernels.attention import attention
from qkv.layers.attention import MultiHeadAttention
from qkv.layers.positions import Positions
from qkv.layers.view import View


class Projection:
    """Several linear maps of one input as one product; a copy of their weights as they are now."""

    def __init__(self, *linears: nn.Linear) -> None:
        self.weight = torch.cat([linear.weight.detach() for linear in linears])
        self.bias = torch.cat([linear.bias.detach() for linear in linears])

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


class InferenceAttention:
    """The three ways in which a model without gradients attends: in parallel, to its own past, to a source."""

    def __init__(self, module: MultiHeadAttention) -> None:
        self.num_heads = module.num_heads
        self.head_width = module.query.in_features // module.num_heads
        self.positions = module.positions
        self.turns = type(self.positions).rotate is not Positions.rotate
        """Whether queries and keys depend on their positions."""
        self.biased = type(self.positions).bias is not Positions.bias
        """Whether positions add something to the scores."""
        self.query_key_value = Projection(module.query, module.key, module.value)
        self.query = Projection(module.query)
        self.output = Projection(module.output)

    def __call__(self, x: Tensor, view: View) -> Tensor:
        """Self-attention of all positions [B, T, D]."""
        queries, keys, values = (split_heads(part, self.num_heads) for part in self.query_key_value(x).chunk(3, -1))
        rotate, bias = self.positions.rotate, self.positions.bias(view.q_pos, view.k_pos)
        context = attention(rotate(queries, view.q_pos), rotate(keys, view.k_pos), values, view.mask, bias)
        return self.output(merge_heads(context))

    def step(self, x: Tensor, past: Tensor, pos: Tensor) -> Tensor:
        """Self-attention of one new position a row [R, D] to all until itself; `pos` [T] are their positions.

        `past` [2, R, H, T, E] holds keys and values; those of the new position are written to its last place.
        """
        last = past.shape[3] - 1
        split = self.query_key_value(x).view(-1, 3, self.num_heads, 1, self.head_width).transpose(0, 1)
        if self.turns:
            split = torch.stack([*(self.positions.rotate(part, pos[last:]) for part in split[:2]), split[2]])
        past.narrow(3, last, 1).copy_(split[1:])
        bias = self.positions.bias(pos[last:], pos) if self.biased else None
        keys, values = past.unbind(0)
        context = F.scaled_dot_product_attention(split[0], keys, values, bias)
        return self.output(context.view(x.shape))

    def attend(self, x: Tensor, memory: Tensor, beams: int, padding: Tensor | None) -> Tensor:
        """Attention of rows [R, D] to the keys and values of their sources, `memory` [2, R / beams, H, S, E]."""
        keys, values = memory.unbind(0)
        context = F.scaled_dot_product_attention(self._queries(x, beams), keys, values, padding)
        return self.output(context.view(x.shape) if beams == 1 else context.transpose(1, 2).reshape(x.shape))

    def weights(self, x: Tensor, memory: Tensor, beams: int, padding: Tensor | None) -> Tensor:
        """The weights of `attend`, the mean over its heads [R, S]."""
        mask = None if padding is None else padding == 0
        return attention_weights(self._queries(x, beams), memory[0], mask).mean(dim=1).flatten(0, 1)

    def _queries(self, x: Tensor, beams: int) -> Tensor:
        """[R / beams, H, beams, E]: the beams of a sentence are the queries of one attention."""
        queries = self.query(x)
        if beams == 1:
            return queries.view(-1, self.num_heads, 1, self.head_width)
        return queries.view(-1, beams, self.num_heads, self.head_width).transpose(1, 2)

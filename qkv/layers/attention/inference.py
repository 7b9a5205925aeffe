"""Attention without gradients: the projections as one product, their weights bound as plain tensors."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from qkv.functional.attention import attention_weights, merge_heads, split_heads
from qkv.layers.attention.base import Attention, ForInference, share_heads
from qkv.layers.positions.attention import attention_with_positions
from qkv.layers.positions.base import Positions
from qkv.layers.view import View


class Projection:
    """Several linear maps of one input as one product; a copy of their weights as they are now."""

    def __init__(self, *linears: nn.Linear) -> None:
        self.weight = torch.cat([linear.weight.detach() for linear in linears])
        self.bias = torch.cat([linear.bias.detach() for linear in linears])

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


class InferenceAttention:
    """Scaled dot-product and softmax (see `ForInference`).

    In a step, the query heads that share keys and values are the queries of one attention: nothing is copied.
    """

    def __init__(self, module: Attention) -> None:
        self.mix = module.mix
        self.kv_heads, self.num_heads = module.kv_heads, module.num_heads
        self.group = module.num_heads // module.kv_heads
        self.head_width = module.head_width
        self.positions = module.positions
        self.turns = type(self.positions).rotate is not Positions.rotate
        """Whether queries and keys depend on their positions."""
        self.biased = type(self.positions).bias is not Positions.bias or self.positions.mixes
        """Whether positions add something to the scores or to the context."""
        self.query_key_value = Projection(module.query, module.key, module.value)
        self.query = Projection(module.query)
        self.output = Projection(module.output)
        self.sizes = [linear.out_features for linear in (module.query, module.key, module.value)]

    def __call__(self, x: Tensor, view: View) -> Tensor:
        queries, keys, values = self.query_key_value(x).split(self.sizes, -1)
        q = self.positions.rotate(split_heads(queries, self.num_heads), view.q_told)
        k = self.positions.rotate(split_heads(keys, self.kv_heads), view.k_told)
        return self.output(merge_heads(self.mix(q, k, split_heads(values, self.kv_heads), view)))

    def step(self, x: Tensor, past: Tensor, pos: Tensor) -> Tensor:
        last, width = past.shape[3] - 1, self.head_width
        projected = self.query_key_value(x)
        queries = projected.narrow(1, 0, x.shape[1]).view(-1, self.num_heads, 1, width)
        key_value = projected.narrow(1, x.shape[1], 2 * self.kv_heads * width)
        key_value = key_value.view(-1, 2, self.kv_heads, 1, width).transpose(0, 1)
        if self.turns:
            queries, keys = (self.positions.rotate(part, pos[last:]) for part in (queries, key_value[0]))
            key_value = torch.stack([keys, key_value[1]])
        past.narrow(3, last, 1).copy_(key_value)
        past, pos = self.visible(past, pos)
        keys, values = past.unbind(0)
        return self.output(self.read(queries, keys, values, pos).reshape(x.shape))

    def visible(self, past: Tensor, pos: Tensor) -> tuple[Tensor, Tensor]:
        """The part of the past, with its positions, that the new position may see."""
        return past, pos

    def read(self, queries: Tensor, keys: Tensor, values: Tensor, pos: Tensor) -> Tensor:
        """The context of one new position a row, [R, H, 1, E] in the order of the heads."""
        if self.biased:
            keys, values = (share_heads(part, self.num_heads) for part in (keys, values))
            return attention_with_positions(self.positions, queries, keys, values, None, pos[-1:], pos)
        grouped = queries if self.group == 1 else queries.view(-1, self.kv_heads, self.group, self.head_width)
        return F.scaled_dot_product_attention(grouped, keys, values)

    def attend(self, x: Tensor, memory: Tensor, beams: int, padding: Tensor | None) -> Tensor:
        keys, values = memory.unbind(0)
        context = F.scaled_dot_product_attention(self._queries(x, beams), keys, values, padding)
        if beams == 1:
            return self.output(context.reshape(x.shape))
        if self.group == 1:
            return self.output(context.transpose(1, 2).reshape(x.shape))
        split = context.unflatten(2, (self.group, beams))
        return self.output(split.permute(0, 3, 1, 2, 4).reshape(x.shape))

    def weights(self, x: Tensor, memory: Tensor, beams: int, padding: Tensor | None) -> Tensor:
        mask = None if padding is None else padding == 0
        weights = attention_weights(self._queries(x, beams), memory[0], mask)
        return weights.unflatten(2, (self.group, beams)).mean(dim=(1, 2)).flatten(0, 1)

    def _queries(self, x: Tensor, beams: int) -> Tensor:
        """[R / beams, KV heads, group x beams, E]: heads that share keys, and beams, are queries of one attention."""
        queries = self.query(x)
        if beams == 1:
            return queries.view(-1, self.kv_heads, self.group, self.head_width)
        if self.group == 1:
            return queries.view(-1, beams, self.kv_heads, self.head_width).transpose(1, 2)
        split = queries.view(-1, beams, self.kv_heads, self.group, self.head_width)
        return split.permute(0, 2, 3, 1, 4).flatten(2, 3)


class DefinedInference(InferenceAttention):
    """Any kind of attention, by its own definition over the cached keys and values."""

    def __init__(self, module: Attention) -> None:
        super().__init__(module)
        self.module = module

    def read(self, queries: Tensor, keys: Tensor, values: Tensor, pos: Tensor) -> Tensor:
        return self.mix(queries, keys, values, View(pos[-1:], pos))

    def attend(self, x: Tensor, memory: Tensor, beams: int, padding: Tensor | None) -> Tensor:
        context = self.mix(self._heads(x, beams), memory[0], memory[1], _source_view(memory, padding))
        return self.output(context.transpose(1, 2).reshape(x.shape))

    def weights(self, x: Tensor, memory: Tensor, beams: int, padding: Tensor | None) -> Tensor:
        weights = self.module.weights(self._heads(x, beams), memory[0], _source_view(memory, padding))
        return weights.mean(dim=1).flatten(0, 1)

    def _heads(self, x: Tensor, beams: int) -> Tensor:
        """[R / beams, H, beams, E]"""
        return self.query(x).view(-1, beams, self.num_heads, self.head_width).transpose(1, 2)


def for_inference(attention: Attention) -> ForInference:
    """The attention without dropout, its weights bound as plain tensors (see `Residual.for_inference`)."""
    return attention.faster_inference() or DefinedInference(attention)


def _source_view(memory: Tensor, padding: Tensor | None) -> View:
    """All of the source; attention to it knows no positions, so the queries may stand anywhere."""
    pos = torch.arange(memory.shape[3], device=memory.device)
    return View(pos[:1], pos, keep=None if padding is None else padding[:, 0, 0] == 0)

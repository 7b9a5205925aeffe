"""Attention for inference: fused projections, with weights as plain tensors."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from qkv.functional.attention import attention_weights
from qkv.layers.attention.base import Attention, Block, Crossing, ForInference, share_heads
from qkv.layers.attention.context import AttentionContext
from qkv.layers.attention.gates import GatedLinear
from qkv.layers.attention.recording import report
from qkv.layers.positions.base import Positions


class FusedLinear:
    """Several linear maps of one input as one product; it copies their present weights."""

    def __init__(self, *linears: nn.Linear) -> None:
        self.weight = torch.cat([_weight(linear).detach() for linear in linears])
        self.bias = torch.cat([linear.bias.detach() for linear in linears])

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


def _weight(linear: nn.Linear) -> Tensor:
    return linear.gated_weight() if isinstance(linear, GatedLinear) else linear.weight


class InferenceAttention:
    """Scaled dot-product attention, by PyTorch's kernel wherever positions add nothing (see `ForInference`)."""

    def __init__(self, module: Attention) -> None:
        self.module = module
        self.num_heads, self.kv_heads, self.head_width = module.num_heads, module.kv_heads, module.head_width
        self.width = module.num_heads * module.head_width
        """Of all heads side by side."""
        self.group = module.num_heads // module.kv_heads
        """Query heads that share keys and values."""
        self.positions = module.positions
        self.turns = type(self.positions).rotate is not Positions.rotate
        """Whether queries and keys depend on their positions."""
        self.biased = type(self.positions).bias is not Positions.bias or self.positions.has_value_term
        """Whether positions add to the scores or to the output."""
        self.query_key_value = FusedLinear(module.query, module.key, module.value)
        self.query = FusedLinear(module.query)
        self.output = FusedLinear(module.output)
        self.all_heads = module.num_heads + 2 * module.kv_heads

    def extend(self, x: Tensor, past: Tensor | None, block: Block) -> Tensor:
        heads = self._by_heads(self.query_key_value(x), self.all_heads, block.width)
        if self.turns:
            heads = self._turned(heads, block.context)
        queries = heads.narrow(1, 0, self.num_heads)
        key_value = heads.narrow(1, self.num_heads, 2 * self.kv_heads)
        keys, values = (key_value if past is None else block.append(past, key_value)).chunk(2, 1)
        output = self.attend(queries, keys, values, block)
        report(self.module.attention_id, lambda: self.module.weights(queries, keys, block.context))
        return self.output(_by_position(output).reshape(*x.shape[:-1], self.width))

    def _turned(self, heads: Tensor, context: AttentionContext) -> Tensor:
        """[R, H + 2 KV heads, W, E] with rotated queries and keys."""
        turned, values = heads.split([self.num_heads + self.kv_heads, self.kv_heads], 1)
        return torch.cat([self.positions.rotate(turned, context.q_position_ids), values], 1)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, block: Block) -> Tensor:
        """Rotated queries [R, H, W, E] and all keys and values [R, KV heads, K, E] to the output [R, H, W, E]."""
        if self.biased:
            return self.module.attend(q, k, v, block.context)
        if self.group == 1:
            return F.scaled_dot_product_attention(q, k, v, block.additive_mask)
        if block.width == 1:
            # Query heads that share keys and values become queries of one attention, so that nothing is copied.
            grouped = q.reshape(-1, self.kv_heads, self.group, self.head_width)
            return F.scaled_dot_product_attention(grouped, k, v, block.additive_mask).view(q.shape)
        return self.module.attend(q, k, v, block.context)

    def cross_attend(self, x: Tensor, crossing: Crossing) -> Tensor:
        (keys, values), padding = crossing.source, crossing.padding
        queries = self._queries(x, keys.shape[0])
        report(self.module.attention_id, lambda: self.module.weights(queries, keys, crossing.context(queries.shape[2])))
        if self.group == 1:
            output = F.scaled_dot_product_attention(queries, keys, values, padding)
            return self.output(_by_position(output).reshape(*x.shape[:-1], self.width))
        grouped = queries.unflatten(1, (self.kv_heads, self.group))
        output = F.scaled_dot_product_attention(grouped.flatten(2, 3), keys, values, padding)
        return self.output(output.view(grouped.shape).permute(0, 3, 1, 2, 4).reshape(x.shape))

    def weights(self, x: Tensor, crossing: Crossing) -> Tensor:
        keys, padding = share_heads(crossing.source.keys, self.num_heads), crossing.padding
        return attention_weights(self._queries(x, keys.shape[0]), keys, None if padding is None else padding == 0)

    def _queries(self, x: Tensor, sentences: int) -> Tensor:
        """[B, H, Q, E]"""
        return self._by_heads(self.query(x), self.num_heads, x.numel() // (x.shape[-1] * sentences))

    def _by_heads(self, projected: Tensor, heads: int, width: int) -> Tensor:
        """[rows, heads, W, E]; the positions of a row follow each other."""
        # A single position has the same layout in memory either way, and a step is too short for needless transposes.
        if width == 1:
            return projected.view(-1, heads, 1, self.head_width)
        return projected.view(-1, width, heads, self.head_width).transpose(1, 2)


class DefinedInference(InferenceAttention):
    """Any kind of attention, by its own `attend`."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, block: Block) -> Tensor:
        return self.module.attend(q, k, v, block.context)

    def cross_attend(self, x: Tensor, crossing: Crossing) -> Tensor:
        (keys, values), queries = crossing.source, self._queries(x, len(crossing.source.keys))
        context = crossing.context(queries.shape[2])
        output = self.module.attend(queries, keys, values, context)
        report(self.module.attention_id, lambda: self.module.weights(queries, keys, context))
        return self.output(_by_position(output).reshape(*x.shape[:-1], self.width))

    def weights(self, x: Tensor, crossing: Crossing) -> Tensor:
        queries = self._queries(x, len(crossing.source.keys))
        return self.module.weights(queries, crossing.source.keys, crossing.context(queries.shape[2]))


def for_inference(attention: Attention) -> ForInference:
    """The attention for inference (see `Residual.for_inference`)."""
    return attention.faster_inference() or DefinedInference(attention)


def _by_position(output: Tensor) -> Tensor:
    """[R, H, W, E] to [R, W, H, E], up to axes of size one."""
    return output if output.shape[2] == 1 else output.transpose(1, 2)

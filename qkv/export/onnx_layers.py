"""The layers of a model as nodes of an ONNX graph."""

from typing import Any

from torch import nn

from qkv.export.onnx_graph import FUSED, Graph, Value
from qkv.layers.attention import MultiHeadAttention
from qkv.layers.feed_forward import FeedForward, FeedForwardConfig, GeluConfig, SwigluFeedForward
from qkv.layers.residual.pre import PreNorm
from qkv.models.transformer.decoder import Decoder
from qkv.models.transformer.encoder import Encoder


class OnnxLayers:
    """Writes stacks into `graph`; `feed_forward` says which activation they have."""

    def __init__(self, graph: Graph, feed_forward: FeedForwardConfig) -> None:
        self.graph = graph
        self.activation = "Gelu" if isinstance(feed_forward, GeluConfig) else "Relu"

    def encoder(self, encoder: Encoder, x: Value, lengths: Value) -> Value:
        """Embedded source [B, S, D], of which `lengths` [B] int32 are real, to memory."""
        for layer in encoder.in_order():
            x = self._sublayer(x, layer.attention_residual, self._self_attention, layer.attention, lengths)
            x = self._sublayer(x, layer.feed_forward_residual, self._feed_forward, layer.feed_forward)
        return self._final(x, encoder.final)

    def decoder(self, decoder: Decoder, x: Value, lengths: Value, memory: Value, src_lengths: Value) -> Value:
        """Canvas [B, T, D] and memory to decoded vectors."""
        layers = list(decoder.in_order())
        # Keys and values of the source for all layers by one product: few large ones are faster than many small.
        pairs = [linear for layer in layers for linear in (layer.cross_attention.key, layer.cross_attention.value)]
        all_parts = self.graph.linear(memory, *pairs)
        parts = self.graph.many("Split", all_parts, outputs=len(pairs), axis=-1, num_outputs=len(pairs))
        for number, layer in enumerate(layers):
            key_value = parts[2 * number : 2 * number + 2]
            x = self._sublayer(x, layer.attention_residual, self._self_attention, layer.attention, lengths)
            x = self._sublayer(
                x, layer.cross_residual, self._cross_attention, layer.cross_attention, key_value, src_lengths
            )
            x = self._sublayer(x, layer.feed_forward_residual, self._feed_forward, layer.feed_forward)
        return self._final(x, decoder.final)

    def _sublayer(self, x: Value, residual: Any, f: Any, *arguments: Any) -> Value:
        """x + f(LN(x)) or LN(x + f(x)). ONNX Runtime's fused node for a sum and its norm is slower than the two."""
        graph = self.graph
        if isinstance(residual, PreNorm):
            return graph.op("Add", x, f(graph.norm(x, residual.norm), *arguments))
        return graph.norm(graph.op("Add", x, f(x, *arguments)), residual.norm)

    def _final(self, x: Value, final: nn.Module) -> Value:
        return self.graph.norm(x, final) if isinstance(final, nn.LayerNorm) else x

    def _self_attention(self, x: Value, attention: MultiHeadAttention, lengths: Value) -> Value:
        projected = self.graph.linear(x, attention.query, attention.key, attention.value)
        query, *key_value = self.graph.many("Split", projected, outputs=3, axis=-1, num_outputs=3)
        return self._attend(query, key_value, attention, lengths)

    def _cross_attention(
        self, x: Value, attention: MultiHeadAttention, key_value: list[Value], lengths: Value
    ) -> Value:
        return self._attend(self.graph.linear(x, attention.query), key_value, attention, lengths)

    def _attend(self, query: Value, key_value: list[Value], attention: MultiHeadAttention, lengths: Value) -> Value:
        inputs = [query, *key_value, "", lengths]
        output = self.graph.op("MultiHeadAttention", *inputs, domain=FUSED, num_heads=attention.num_heads)
        return self.graph.linear(output, attention.output)

    def _feed_forward(self, x: Value, feed_forward: nn.Module) -> Value:
        graph = self.graph
        if isinstance(feed_forward, SwigluFeedForward):
            both = graph.linear(x, feed_forward.gate, feed_forward.inner)
            gate, inner = graph.many("Split", both, outputs=2, axis=-1, num_outputs=2)
            gate = graph.op("Mul", gate, graph.op("Sigmoid", gate))
            return graph.linear(graph.op("Mul", gate, inner), feed_forward.outer)
        assert isinstance(feed_forward, FeedForward)
        hidden = graph.op(self.activation, graph.linear(x, feed_forward.inner))
        return graph.linear(hidden, feed_forward.outer)

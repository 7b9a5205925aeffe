"""A builder of ONNX graphs, with matrices in float32 or int8."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from qkv.core.errors import UsageError

if TYPE_CHECKING:
    from onnx import NodeProto, TensorProto


from qkv.layers.attention import MultiHeadAttention
from qkv.layers.feed_forward import FeedForward, FeedForwardConfig, GeluConfig, SwigluFeedForward
from qkv.layers.residual.pre import PreNorm
from qkv.models.transformer.decoder import Decoder
from qkv.models.transformer.encoder import Encoder

OPSET, IR_VERSION = 20, 9
"""Old enough for every ONNX Runtime since 1.18."""
FUSED = "com.microsoft"
"""The operators of ONNX Runtime itself: attention as one node, and a product in int8 as one node."""
Value = str
"""The name of a tensor in the graph."""
Described = tuple[str, str]
"""The type of a tensor, and its axes with spaces between them."""


class Graph:
    """Each method adds nodes and returns the name of the output. With `int8`, weights are stored as bytes."""

    def __init__(self, int8: bool = False) -> None:
        try:
            import onnx
        except ImportError as error:
            raise UsageError("exporting to ONNX needs onnx; install it with: pip install 'qkv[onnx]'") from error
        self._onnx = onnx
        self.int8 = int8
        self._nodes: list[NodeProto] = []
        self._constants: list[TensorProto] = []
        self._known: dict[object, Value] = {}
        self._count = 0

    def many(self, kind: str, *inputs: Value, outputs: int, domain: str = "", **attributes: Any) -> list[Value]:
        names = [self._name() for _ in range(outputs)]
        self._nodes.append(self._onnx.helper.make_node(kind, inputs, names, domain=domain, **attributes))
        return names

    def op(self, kind: str, *inputs: Value, domain: str = "", **attributes: Any) -> Value:
        return self.many(kind, *inputs, outputs=1, domain=domain, **attributes)[0]

    def constant(self, array: np.ndarray) -> Value:
        name = self._name()
        self._constants.append(self._onnx.numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def ints(self, *values: int) -> Value:
        """A constant [n] of int64, stored once."""
        return self.once(values, lambda: self.constant(np.array(values, dtype=np.int64)))

    def weight(self, tensor: Tensor) -> Value:
        """A parameter as it is; one that is used at several places is stored once."""
        return self.once(id(tensor), lambda: self.constant(as_array(tensor)))

    def linear(self, x: Value, *linears: nn.Linear) -> Value:
        """x W^T + b of layers that read the same vectors, their results side by side."""
        key = tuple(id(linear) for linear in linears)
        weight = torch.cat([linear.weight.detach() for linear in linears])
        bias = None if linears[0].bias is None else torch.cat([linear.bias.detach() for linear in linears])
        return self.matrix(x, weight, bias, key)

    def matrix(self, x: Value, weight: Tensor, bias: Tensor | None, key: object) -> Value:
        """x W^T + b. `key` names the matrix: the same one is stored once."""
        shift = "" if bias is None else self.once(("bias", key), lambda: self.constant(as_array(bias)))
        return self.product(x, weight, shift, key)

    def product(self, x: Value, weight: Tensor, shift: Value, key: object) -> Value:
        """The same with a b that the graph has computed, or with none ("")."""
        if self.int8:
            return self._int8_matrix(x, weight, shift, key)
        product = self.op("MatMul", x, self.once(("matrix", key), lambda: self.constant(as_array(weight.T))))
        return self.op("Add", product, shift) if shift else product

    def _int8_matrix(self, x: Value, weight: Tensor, shift: Value, key: object) -> Value:
        """Weights are w ≈ s q with one s for each output; x is rounded to 256 steps between its extremes."""
        scale = np.maximum(np.abs(as_array(weight)).max(axis=1), 1e-30) / np.float32(127)
        rounded = self.once(
            ("matrix", key), lambda: self.constant(np.rint(as_array(weight) / scale[:, None]).astype(np.int8).T)
        )
        scales = self.once(("scale", key), lambda: self.constant(scale))
        inputs = [x, rounded, scales, *(["", shift] if shift else [])]
        return self.op("DynamicQuantizeMatMul", *inputs, domain=FUSED)

    def norm(self, x: Value, norm: nn.LayerNorm) -> Value:
        return self.op(
            "LayerNormalization", x, self.weight(norm.weight), self.weight(norm.bias), axis=-1, epsilon=norm.eps
        )

    def cast(self, value: Value, to: str) -> Value:
        """`to` is the name of a type in ONNX."""
        return self.op("Cast", value, to=self._type(to))

    def range(self, count: Value) -> Value:
        """[n]: 0, 1, ..., n - 1 of a number in the graph."""
        zero, one = (self.once(("scalar", n), partial(self.constant, np.array(n, dtype=np.int64))) for n in (0, 1))
        return self.op("Range", zero, count, one)

    def rename(self, value: Value, name: str) -> None:
        """Make it an output of the graph."""
        self._nodes.append(self._onnx.helper.make_node("Identity", [value], [name]))

    def serialized(
        self, inputs: Mapping[str, Described], outputs: Mapping[str, Described], about: Mapping[str, str]
    ) -> bytes:
        """The whole model: what goes in and comes out by name, and what a reader of the file should know."""
        helper = self._onnx.helper
        graph = helper.make_graph(
            self._nodes,
            "model",
            *(
                [helper.make_tensor_value_info(name, self._type(kind), axes.split()) for name, (kind, axes) in end]
                for end in (inputs.items(), outputs.items())
            ),
            self._constants,
        )
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(FUSED, 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="qkv")
        helper.set_model_props(model, dict(about))
        serialized: bytes = model.SerializeToString()
        return serialized

    def _type(self, name: str) -> int:
        number: int = self._onnx.TensorProto.DataType.Value(name)
        return number

    def _name(self) -> Value:
        self._count += 1
        return f"v{self._count}"

    def once(self, key: object, make: Callable[[], Value]) -> Value:
        """The cached result of `make` for this key."""
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]


def as_array(tensor: Tensor) -> np.ndarray:
    array: np.ndarray = tensor.detach().float().cpu().numpy()
    return array


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

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

"""The canvases of the kinds of decoders that ONNX has a form for."""

import numpy as np
from torch import Tensor

from qkv.export.onnx_canvas import OnnxCanvas, Read, onnx_canvases
from qkv.export.onnx_graph import Graph, Value
from qkv.models.decoders.ctc import CtcModel
from qkv.models.decoders.nat import NatModel
from qkv.models.parallel.base import StretchedModel
from qkv.models.parallel.length_predictor import SMALLEST


class Stretched(OnnxCanvas):
    """As long as the source says."""

    def lengths(self, graph: Graph, model: StretchedModel, read: Read) -> Value:
        longer = graph.op("Max", _times(graph, read.lengths, model.factor), graph.ints(1 - model.extra))
        return graph.op("Add", longer, graph.ints(model.extra))


def _times(graph: Graph, lengths: Value, factor: float) -> Value:
    """⌈factor lengths⌉ in double precision, as `StretchedModel` computes it."""
    product = graph.op("Mul", graph.cast(lengths, "DOUBLE"), graph.constant(np.array([factor], dtype=np.float64)))
    return graph.cast(graph.op("Ceil", product), "INT64")


class UntilEnd(Stretched):
    """What is behind the first END is left to whoever reads the canvas."""

    says_end = True


class Collapsing(Stretched):
    """The last id is the blank."""

    inputs = ("blank_penalty",)

    def shift(self, graph: Graph, model: CtcModel, bias: Tensor) -> Value:
        is_blank = graph.constant((np.arange(len(bias)) == model.blank).astype(np.float32))
        return graph.op("Sub", super().shift(graph, model, bias), graph.op("Mul", is_blank, "blank_penalty"))


class Predicted(OnnxCanvas):
    """As long as the model predicts."""

    def lengths(self, graph: Graph, model: NatModel, read: Read) -> Value:
        """|X| - 1 + the most probable difference, between 1 and the limit."""
        width = graph.op("Squeeze", graph.op("Shape", read.src, start=1, end=2))
        inside = graph.op("Less", graph.range(width), graph.op("Unsqueeze", read.lengths, graph.ints(1)))
        real = graph.op("Unsqueeze", graph.cast(inside, "FLOAT"), graph.ints(2))
        total = graph.op("ReduceSum", graph.op("Mul", read.memory, real), graph.ints(1), keepdims=0)
        count = graph.op("Unsqueeze", graph.cast(read.lengths, "FLOAT"), graph.ints(1))
        output = model.length_predictor.output
        # Always in float32: one wrong length spoils a whole sentence, and the matrix is small.
        logits = graph.op(
            "Gemm", graph.op("Div", total, count), graph.weight(output.weight), graph.weight(output.bias), transB=1
        )
        best = graph.op("ArgMax", logits, axis=1, keepdims=0)
        length = graph.op("Add", graph.op("Add", read.lengths, best), graph.ints(SMALLEST - 1))
        return graph.op("Max", graph.op("Min", length, read.limits), graph.ints(1))


onnx_canvases.register("canvas", UntilEnd())
onnx_canvases.register("ctc", Collapsing())
onnx_canvases.register("mask_predict", Predicted())
onnx_canvases.register("nat", Predicted())

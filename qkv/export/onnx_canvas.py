"""The canvas of each non-autoregressive model in an ONNX graph: how long it is, and what it begins with."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from qkv.export.onnx_graph import Graph, Value, as_array
from qkv.functional.glancing import repetition, uniform_copy
from qkv.models.decoders.canvas import CanvasModel
from qkv.models.decoders.ctc import CtcModel
from qkv.models.decoders.mask_predict import MaskPredictModel
from qkv.models.decoders.nat import NatModel
from qkv.models.parallel.base import CopiedSource, CopyIndices, LearnedQuery, ParallelModel, StretchedModel
from qkv.models.parallel.length_predictor import SMALLEST
from qkv.models.transformer.model import Embedder
from qkv.text.special import SPECIAL


@dataclass(frozen=True)
class Read:
    """A batch of sources in the graph."""

    src: Value
    """[B, S]"""
    lengths: Value
    """[B], END included."""
    memory: Value
    """[B, S, D]"""
    limits: Value
    """[B], the most tokens of each output."""


def canvas_lengths(graph: Graph, model: ParallelModel, read: Read) -> Value:
    """[B]: as many positions as our own decoding would take."""
    return LENGTHS[type(model)](graph, model, read)


def _stretched(graph: Graph, model: StretchedModel, read: Read) -> Value:
    longer = graph.op("Max", _times(graph, read.lengths, model.factor), graph.ints(1 - model.extra))
    return graph.op("Add", longer, graph.ints(model.extra))


def _times(graph: Graph, lengths: Value, factor: float) -> Value:
    """⌈factor lengths⌉ in double precision, as `StretchedModel` computes it."""
    product = graph.op("Mul", graph.cast(lengths, "DOUBLE"), graph.constant(np.array([factor], dtype=np.float64)))
    return graph.cast(graph.op("Ceil", product), "INT64")


def _predicted(graph: Graph, model: NatModel, read: Read) -> Value:
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


LENGTHS: dict[type[ParallelModel], Callable[[Graph, Any, Read], Value]] = {
    CanvasModel: _stretched,
    CtcModel: _stretched,
    MaskPredictModel: _predicted,
    NatModel: _predicted,
}


def opened(graph: Graph, model: ParallelModel, read: Read, lengths: Value, width: Value) -> Value:
    """[B, T, D]: what the decoder reads at each position before its place is added. `width` is T."""
    opening = model.opening
    if isinstance(opening, CopiedSource):
        return _copied(graph, model, opening, read, lengths, width)
    batch = graph.op("Shape", read.src, start=0, end=1)
    if isinstance(opening, LearnedQuery):
        vector = as_array(opening.query)
    else:
        vector = as_array(model.tgt_embedder.tokens.weight[SPECIAL.mask]) * np.float32(model.tgt_embedder.tokens.scale)
    shape = graph.op("Concat", batch, graph.op("Reshape", width, graph.ints(1)), graph.ints(len(vector)), axis=0)
    return graph.op("Expand", graph.constant(vector), shape)


def _copied(
    graph: Graph, model: ParallelModel, opening: CopiedSource, read: Read, lengths: Value, width: Value
) -> Value:
    """See `functional/glancing.py`."""
    src_lengths = read.lengths
    if not opening.with_end:
        src_lengths = graph.op("Max", graph.op("Sub", src_lengths, graph.ints(1)), graph.ints(1))
    of, to = (graph.op("Unsqueeze", each, graph.ints(1)) for each in (src_lengths, lengths))
    last = graph.op("Sub", of, graph.ints(1))
    index = INDICES[opening.indices](graph, graph.range(width), of, to)
    ids = graph.op("GatherElements", read.src, graph.op("Min", index, last), axis=1)
    return graph.op("Gather", scaled_embedding(graph, model.src_embedder), ids)


def _repeated(graph: Graph, positions: Value, of: Value, to: Value) -> Value:
    return graph.op("Div", graph.op("Mul", positions, of), to)


def _evenly(graph: Graph, positions: Value, of: Value, to: Value) -> Value:
    one = graph.ints(1)
    gaps = graph.op("Max", graph.op("Sub", to, one), one)
    step = graph.op("Div", graph.cast(graph.op("Sub", of, one), "DOUBLE"), graph.cast(gaps, "DOUBLE"))
    return graph.cast(graph.op("Round", graph.op("Mul", graph.cast(positions, "DOUBLE"), step)), "INT64")


INDICES: dict[CopyIndices, Callable[[Graph, Value, Value, Value], Value]] = {
    repetition: _repeated,
    uniform_copy: _evenly,
}


def scaled_embedding(graph: Graph, embedder: Embedder) -> Value:
    """E sqrt(d_model), so that looking a token up is all there is to do."""
    tokens = embedder.tokens
    return graph.once(
        ("scaled", id(tokens.weight)), lambda: graph.constant(as_array(tokens.weight) * np.float32(tokens.scale))
    )

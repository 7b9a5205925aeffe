"""The canvas of each non-autoregressive model in an ONNX graph: how long it is, and what it begins with."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from qkv.config import Names
from qkv.export.onnx_graph import Graph, Value, as_array
from qkv.functional.parallel.glancing import repetition, uniform_copy
from qkv.models.parallel.base import CopiedSource, CopyIndices, LearnedQuery, ParallelModel
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


class OnnxCanvas:
    """How the canvas of one kind of decoder is written into a graph; one file registers each kind."""

    says_end = False
    """Whether END may come out."""
    inputs: tuple[str, ...] = ()
    """Settings of the kind's reader that are inputs of the graph, numbers all of them."""

    def lengths(self, graph: Graph, model: Any, read: Read) -> Value:
        """[B]: as many positions as our own decoding would take."""
        raise NotImplementedError

    def shift(self, graph: Graph, model: Any, bias: Tensor) -> Value:
        """What is added to the logits [V]: `bias` and whatever the inputs ask for."""
        return graph.constant(as_array(bias))


onnx_canvases = Names[OnnxCanvas]("ONNX canvas")
"""By kind of decoder."""


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
    """See `functional/parallel/glancing.py`."""
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

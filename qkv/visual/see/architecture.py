"""The boxes of a model's diagram: what each computes, where its source is, and how large it is."""

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from qkv.layers.attention import Attention
from qkv.models.base import Model
from qkv.models.transformer.model import Transformer

PACKAGE = Path(__file__).parents[2]


@dataclass(frozen=True)
class Box:
    """One part of a model."""

    name: str
    """Of the module, such as `encoder.layers.0.attention`."""
    title: str
    column: str
    """encoder, decoder or output."""
    layer: int | None
    """Counted from 0; None: no part of a layer."""
    equation: str
    """The first sentence of the docstring of its class."""
    source: str
    """Class, file and line."""
    parameters: int
    shapes: list[tuple[str, str]]
    """What goes in, what comes out and what its weights are, with their sizes for this sentence."""


def boxes(model: Model, src_length: int, tgt_length: int) -> list[Box]:
    """The parts of a model from the input to the output; layers that are shared appear once."""
    if isinstance(model, Transformer):
        return list(_transformer(model, src_length, tgt_length))
    parts = [(name, part) for name, part in model.named_children() if sum(1 for _ in part.parameters())]
    return [_box(part, name, name.replace("_", " "), _column(name), None, []) for name, part in parts]


def _column(name: str) -> str:
    if "head" in name or "out" in name:
        return "output"
    return "encoder" if "encoder" in name or "src" in name else "decoder"


def _transformer(model: Transformer, src_length: int, tgt_length: int) -> Iterator[Box]:
    embedders = (
        ("encoder", "src_embedder", model.src_embedder, src_length),
        ("decoder", "tgt_embedder", model.tgt_embedder, tgt_length),
    )
    for column, name, embedder, length in embedders:
        rows, width = embedder.tokens.weight.shape
        shapes = [("token ids", f"{length}"), ("table", f"{rows:,} × {width}"), ("out", f"{length} × {width}")]
        yield _box(embedder, name, "Embedding and positions", column, None, shapes)
    for number, layer in enumerate(model.encoder.layers):
        assert isinstance(layer, nn.Module)
        yield from _layer(layer, f"encoder.layers.{number}", "encoder", number, src_length, src_length)
    for number, layer in enumerate(model.decoder.layers):
        yield from _layer(layer, f"decoder.layers.{number}", "decoder", number, tgt_length, src_length)
    width = model.tgt_embedder.tokens.weight.shape[1]
    scores = [("in", f"{tgt_length} × {width}"), ("out", f"{tgt_length} × {len(model.tgt_embedder.tokens.weight):,}")]
    yield _box(model.head, "head", "Output head and softmax", "output", None, scores)


def _layer(layer: nn.Module, name: str, column: str, number: int, queries: int, keys: int) -> Iterator[Box]:
    """Each sublayer, and the residual connection after it."""
    for part, sublayer in layer.named_children():
        if isinstance(sublayer, Attention):
            cross = part == "cross_attention"
            title = "Cross-attention" if cross else "Self-attention"
            shapes = _attention_shapes(sublayer, queries, keys if cross else queries)
            yield _box(sublayer, f"{name}.{part}", title, column, number, shapes)
        elif part == "feed_forward":
            weights = [(key, " × ".join(map(str, weight.shape))) for key, weight in sublayer.named_parameters()]
            yield _box(sublayer, f"{name}.{part}", "Feed-forward", column, number, weights)
        elif part.endswith("residual"):
            yield _box(sublayer, f"{name}.{part}", "Add and norm", column, number, [])


def _attention_shapes(attention: Attention, queries: int, keys: int) -> list[tuple[str, str]]:
    heads, width = attention.num_heads, attention.head_width
    return [
        ("queries", f"{heads} × {queries} × {width}"),
        ("keys, values", f"{attention.kv_heads} × {keys} × {width}"),
        ("weights A", f"{heads} × {queries} × {keys}"),
        ("W_q", " × ".join(map(str, attention.query.weight.shape))),
        ("W_k, W_v", " × ".join(map(str, attention.key.weight.shape))),
        ("W_o", " × ".join(map(str, attention.output.weight.shape))),
    ]


def _box(part: nn.Module, name: str, title: str, column: str, layer: int | None, shapes: list[tuple[str, str]]) -> Box:
    made = type(part)
    parameters = sum(weight.numel() for weight in part.parameters())
    first = (inspect.getdoc(made) or "").split("\n\n")[0].replace("\n", " ")
    return Box(name, title, column, layer, first, _place(made), parameters, shapes)


def _place(made: type) -> str:
    """Of a class: its name, file and line; only its module if it is not of this package."""
    path = Path(inspect.getsourcefile(made) or "")
    if not path.is_relative_to(PACKAGE):
        return f"{made.__name__} of {made.__module__}"
    line = inspect.getsourcelines(made)[1]
    return f"{made.__name__}, {path.relative_to(PACKAGE.parent).as_posix()}:{line}"

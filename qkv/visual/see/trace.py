"""One parallel pass through a Transformer with everything that its sublayers computed."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from qkv.layers.attention import Attention
from qkv.models.base import Model
from qkv.models.transformer.decoder import DecoderLayer
from qkv.models.transformer.encoder import EncoderLayer
from qkv.models.transformer.model import Transformer


@dataclass(frozen=True)
class SublayerPass:
    """result = residual(x, f), f(h) = out; each [n, D] of the one sentence."""

    x: Tensor
    h: Tensor
    """What the sublayer reads: x itself, or its norm."""
    out: Tensor
    result: Tensor


@dataclass
class Trace:
    """The passes of each sublayer by its name, such as `encoder.layers.0.feed_forward`."""

    sublayers: dict[str, list[SublayerPass]] = field(default_factory=dict)


@contextmanager
def trace_sublayers(model: Model) -> Iterator[Trace]:
    """What the sublayers of a Transformer's layers read and write inside the block; of other models, nothing."""
    trace = Trace()
    with ExitStack() as hooks:
        if isinstance(model, Transformer):
            for name, layer in model.named_modules():
                if isinstance(layer, EncoderLayer | DecoderLayer):
                    for part, sublayer, residual in _sublayers(layer):
                        passes = trace.sublayers.setdefault(f"{name}.{part}", [])
                        _watch(sublayer, residual, passes, hooks)
        yield trace


def _sublayers(layer: EncoderLayer | DecoderLayer) -> Iterator[tuple[str, nn.Module, nn.Module]]:
    """The name of each sublayer, the sublayer and its residual connection, in order."""
    yield "attention", layer.attention, layer.attention_residual
    if isinstance(layer, DecoderLayer):
        yield "cross_attention", layer.cross_attention, layer.cross_residual
    yield "feed_forward", layer.feed_forward, layer.feed_forward_residual


def _watch(sublayer: nn.Module, residual: nn.Module, passes: list[SublayerPass], hooks: ExitStack) -> None:
    """Self-attention and feed-forward are called as modules; of cross-attention, its query projection is."""
    seen: dict[str, Tensor] = {}

    def reads(module: nn.Module, args: tuple[Any, ...]) -> None:
        seen["h"] = args[0]

    def writes(module: nn.Module, args: tuple[Any, ...], out: Tensor) -> None:
        seen["out"] = out

    def joins(module: nn.Module, args: tuple[Any, ...], result: Tensor) -> None:
        if "out" in seen:
            passes.append(SublayerPass(args[0][0], seen.get("h", args[0])[0], seen["out"][0], result[0]))

    last = sublayer
    if isinstance(sublayer, Attention):
        hooks.callback(sublayer.query.register_forward_pre_hook(reads).remove)
        last = sublayer.output
    hooks.callback(sublayer.register_forward_pre_hook(reads).remove)
    hooks.callback(last.register_forward_hook(writes).remove)
    hooks.callback(residual.register_forward_hook(joins).remove)

"""Recording of queries, keys and values: `with capture_heads() as passes: model(batch)`.

What attention computes before its weights. It is for looking at one sentence, so everything is kept; nothing is when
nobody records.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from torch import Tensor

from qkv.layers.attention.context import AttentionContext


class HeadPass(NamedTuple):
    """One pass through an attention."""

    q: Tensor
    """[B, H, Q, E], rotated."""
    k: Tensor
    """[B, KV heads, K, E], rotated."""
    v: Tensor
    """[B, KV heads, K, E]"""
    context: AttentionContext


HeadPasses = dict[str, list[HeadPass]]
"""By the name of the attention, such as `decoder.layers.0.cross_attention`."""

_passes: ContextVar[HeadPasses | None] = ContextVar("head passes", default=None)
_capturing = 0
"""How many capture in any context; see `recording`."""


@contextmanager
def capture_heads() -> Iterator[HeadPasses]:
    """All passes through attentions of models inside the block, in order; not those of copies for inference."""
    global _capturing
    passes: HeadPasses = {}
    token = _passes.set(passes)
    _capturing += 1
    try:
        yield passes
    finally:
        _capturing -= 1
        _passes.reset(token)


def report_heads(name: str, made: HeadPass) -> None:
    """Called by every attention that weights its values by softmax-like weights of queries and keys."""
    if not _capturing:
        return
    passes = _passes.get()
    if passes is not None:
        passes.setdefault(name, []).append(made)

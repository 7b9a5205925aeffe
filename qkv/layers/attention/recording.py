"""Attention weights for people to look at: `with capture_attention(model) as record: ...`.

Every kind of attention reports here, in training, in a parallel pass and in cached decoding. Nothing is computed, and
nothing costs time, unless somebody records.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class AttentionRecord:
    """Weights by the name of the attention, such as `decoder.layers.0.cross_attention`.

    Each pass through an attention adds one tensor [B, H, Q, K]; a layer that stands at several depths adds several.
    """

    def __init__(self) -> None:
        self.passes: dict[str, list[Tensor]] = {}

    def __getitem__(self, name: str) -> Tensor:
        """All passes of one attention, one after the other along the queries: [B, H, Q, K].

        In cached decoding the number of keys grows; those that a step did not know yet have weight 0.
        """
        passes = self.passes[name]
        most = max(weights.shape[-1] for weights in passes)
        return torch.cat([F.pad(weights, (0, most - weights.shape[-1])) for weights in passes], dim=2)

    def __iter__(self) -> Iterator[str]:
        return iter(self.passes)

    def __len__(self) -> int:
        return len(self.passes)

    def add(self, name: str, weights: Tensor) -> None:
        self.passes.setdefault(name, []).append(weights)


_record: ContextVar[AttentionRecord | None] = ContextVar("attention record", default=None)


@contextmanager
def capture_attention(model: nn.Module) -> Iterator[AttentionRecord]:
    """Record the attention weights of all passes of `model`, and of what was made from it for inference.

    Outputs stay the same to the bit. Weights are those before dropout, without gradients.

    Example::

        with capture_attention(model) as record:
            model(src, src_keep, tgt_in)
        record["encoder.layers.0.attention"]  # [B, H, S, S]
    """
    for name, module in model.named_modules():
        if hasattr(module, "attention_name"):
            module.attention_name = name
    record = AttentionRecord()
    token = _record.set(record)
    try:
        yield record
    finally:
        _record.reset(token)


def report(module: nn.Module, weights: Callable[[], Tensor]) -> None:
    """Called by every attention after each pass; `weights` computes [B, H, Q, K] if somebody wants them."""
    record = _record.get()
    if record is not None:
        with torch.no_grad():
            record.add(str(module.attention_name), weights().detach())

"""Perplexity and bits per byte of a causal language model, by a sliding window.

PPL = exp(-1/N sum_t log p(x_t | x_<t)), bits per byte = -sum_t log2 p / number of UTF-8 bytes

A text that is longer than the window is read in windows that overlap: each moves on by `stride` tokens, and only the
tokens that no earlier window predicted count, so all of them but the first have at least window - stride before them.
"""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import torch

from qkv.core.errors import DataError, UsageError
from qkv.data.batching import in_chunks
from qkv.models.asked import require_asked
from qkv.models.language.causal import CausalLM
from qkv.models.saved.folder import SavedModel

WINDOW = 1024
"""The window of a model whose positions have no limit."""
AT_ONCE = 64


@dataclass(frozen=True)
class PerplexityReport:
    """Sums over texts; the end of each text counts as a token."""

    texts: int
    tokens: int
    bytes: int
    nll: float
    """-log p in nats, summed."""
    unknown: int
    """Unknown tokens: with any of them, the bits per byte of two models cannot be compared."""

    @property
    def perplexity(self) -> float:
        return math.exp(min(self.nll / self.tokens, 700.0))

    @property
    def bits_per_byte(self) -> float:
        return self.nll / math.log(2) / max(self.bytes, 1)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self) | {"perplexity": self.perplexity, "bits_per_byte": self.bits_per_byte}


def measure_perplexity(
    saved: SavedModel, texts: Iterable[str], window: int | None = None, stride: int | None = None
) -> PerplexityReport:
    """Of the texts, each by itself; `window` by default all positions that the model has, `stride` half of it."""
    require_asked(saved.config.model, "generate", "this")
    model, tokenizer = saved.model, saved.tokenizers.tgt
    assert isinstance(model, CausalLM)
    limit = model.limits.tgt
    window = window or limit or WINDOW
    stride = stride or max(1, window // 2)
    if limit is not None and window > limit:
        raise UsageError(f"a window of {window} tokens exceeds the model's {limit} positions; give at most so many")
    if stride > window:
        raise UsageError(f"a stride of {stride} skips tokens of a window of {window}; give at most so many")
    count = tokens = size = unknown = 0
    nll = 0.0
    for some in in_chunks(texts, AT_ONCE):
        for text, ids in zip(some, tokenizer.encode_batch(some), strict=True):
            nll += text_nll(model, [tokenizer.special.bos, *ids, tokenizer.special.eos], window, stride)
            count, tokens, size = count + 1, tokens + len(ids) + 1, size + len(text.encode())
            unknown += ids.count(tokenizer.special.unk)
    if not count:
        raise DataError("there is no text to measure on; give at least one line")
    return PerplexityReport(count, tokens, size, nll, unknown)


@torch.no_grad()
def text_nll(model: CausalLM, ids: list[int], window: int, stride: int) -> float:
    """-log p of ids[1:] given the ones before, in windows of `window` tokens."""
    sequence, done, total, start = torch.tensor(ids), 0, 0.0, 0
    last = len(ids) - 1
    while done < last:
        end = min(start + window, last)
        states = model.states(sequence[None, start:end])[:, done - start :]
        log_probs = model.head.log_probs(states)[0]
        total -= float(log_probs.gather(1, sequence[done + 1 : end + 1, None]).sum())
        done, start = end, start + stride
    return total

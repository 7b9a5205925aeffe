"""Masked spans as in T5 (Raffel et al. 2020)."""

from itertools import pairwise

import torch


def span_counts(length: int, density: float = 0.15, mean_length: float = 3.0) -> tuple[int, int]:
    """(noise tokens, spans): clip(round(density L), 1, L - 1) and max(1, round(noise / mean_length)).

    Both are at most what leaves a token between two spans.
    """
    noise = min(max(round(length * density), 1), length - 1)
    return noise, min(max(1, round(noise / mean_length)), noise, length - noise)


def random_segments(total: int, parts: int, generator: torch.Generator) -> list[int]:
    """`total` items in `parts` segments of at least one, every division as likely as any other."""
    cuts = torch.randperm(total - 1, generator=generator)[: parts - 1].sort().values.tolist()
    bounds = [0, *(cut + 1 for cut in cuts), total]
    return [end - start for start, end in pairwise(bounds)]


def corrupt_spans(
    tokens: list[int], sentinels: list[int], generator: torch.Generator, density: float = 0.15, mean_length: float = 3.0
) -> tuple[list[int], list[int]]:
    """Input and target of a text of two tokens or more: in the input sentinel i stands for span i, and the target is
    sentinel_0 span_0 sentinel_1 span_1 ... and a closing sentinel. Text comes first, so spans are never adjacent.
    """
    noise, spans = span_counts(len(tokens), density, mean_length)
    spans = min(spans, len(sentinels) - 1)
    kept = random_segments(len(tokens) - noise, spans, generator)
    hidden = random_segments(noise, spans, generator)
    source, target, place = list[int](), list[int](), 0
    for sentinel, before, inside in zip(sentinels, kept, hidden, strict=False):
        source += [*tokens[place : place + before], sentinel]
        target += [sentinel, *tokens[place + before : place + before + inside]]
        place += before + inside
    return source, [*target, sentinels[spans]]

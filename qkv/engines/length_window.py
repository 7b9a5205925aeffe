"""Length control: each source gets a window of lengths relative to the search's own output."""

from collections.abc import Sequence
from dataclasses import replace

from qkv.engines.base import DecodeRequest, Engine
from qkv.search.base import Constraints, SteppedSearch


def with_windows(
    engine: Engine, sources: Sequence[list[int]], request: DecodeRequest, search: SteppedSearch
) -> DecodeRequest:
    """The request with the window of lengths of each source."""
    usual = [0] * len(sources)
    if search.length is None:
        free = replace(request, search=search.without_length(), nbest=1, attention=False, token_scores=False)
        usual = [len(best.tokens) for best, *_ in engine.decode(sources, free)]
    windows = [_widened(search.window(length), own) for length, own in zip(usual, request.constraints, strict=True)]
    return replace(
        request,
        constraints=[replace(own, length=window) for own, window in zip(request.constraints, windows, strict=True)],
    )


def _widened(window: tuple[int, int], constraints: Constraints) -> tuple[int, int]:
    """The window, extended where a prefix and required words need more."""
    return window[0], max(window[1], constraints.needed)

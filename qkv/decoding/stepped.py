"""What the searches that write token by token have in common: how long an output is wanted."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Self

from pydantic import Field, model_validator

from qkv.decoding.engine import DecodeRequest, Engine
from qkv.decoding.search import Constraints, SearchConfig


class SteppedSearch(SearchConfig):
    """A search that writes one token after another, and may be asked for a length.

    Of all outputs within a window of lengths the search then finds the best. A token is never cut off: END may not be
    said before the window, and must be at its end. The scores stay those of the model.
    """

    length_factor: float = Field(default=1.0, gt=0, le=100)
    """Outputs are so many times as long as the search would make them: it is asked for that length first."""
    length: int | None = Field(default=None, ge=1)
    """Every output has exactly so many tokens."""
    length_slack: int = Field(default=1, ge=0)
    """With `length_factor`: an output may have so many tokens more or less."""

    @model_validator(mode="after")
    def _one_wish(self) -> Self:
        if self.length is not None and self.length_factor != 1.0:
            raise ValueError("length says how long an output is; leave out length_factor")
        return self

    @property
    def exact_length(self) -> int | None:
        return self.length

    @property
    def wants_length(self) -> bool:
        return self.length is not None or self.length_factor != 1.0

    def without_length(self) -> Self:
        """The same search, left to itself."""
        return self.model_copy(update={"length": None, "length_factor": 1.0})

    def window(self, usual: int) -> tuple[int, int]:
        """The fewest and the most tokens of an output that would have `usual` tokens."""
        if self.length is not None:
            return self.length, self.length
        wanted = max(1, round(self.length_factor * usual))
        return max(1, wanted - self.length_slack), wanted + self.length_slack


def with_windows(
    engine: Engine, sources: Sequence[list[int]], request: DecodeRequest, search: SteppedSearch
) -> DecodeRequest:
    """The request with the window of lengths of each source."""
    usual = [0] * len(sources)
    if search.length is None:
        free = replace(request, search=search.without_length(), nbest=1, attention=False, token_scores=False)
        usual = [len(best.tokens) for best, *_ in engine.decode(sources, free)]
    windows = [_roomy(search.window(length), own) for length, own in zip(usual, request.constraints, strict=True)]
    return replace(
        request,
        constraints=[replace(own, length=window) for own, window in zip(request.constraints, windows, strict=True)],
    )


def _roomy(window: tuple[int, int], constraints: Constraints) -> tuple[int, int]:
    """The window, or a later end of it where a prefix and required words need more room."""
    return window[0], max(window[1], constraints.needed)

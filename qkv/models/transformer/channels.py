"""What a pass has to say beside its result, to whoever listens: `with channel.listen() as heard: model(...)`.

So no layer has another return value or keeps something of the last pass, and nobody in between needs to know.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Generic, TypeVar

from torch import Tensor

Said = TypeVar("Said")


class Channel(Generic[Said]):
    """From inside a model to the innermost listener of this thread; without one, what is said is lost."""

    def __init__(self, name: str) -> None:
        self._heard: ContextVar[list[Said] | None] = ContextVar(name, default=None)

    def say(self, what: Said) -> None:
        heard = self._heard.get()
        if heard is not None:
            heard.append(what)

    @contextmanager
    def listen(self) -> Iterator[list[Said]]:
        """The list of what is said inside the block, in order."""
        heard: list[Said] = []
        token = self._heard.set(heard)
        try:
            yield heard
        finally:
            self._heard.reset(token)


@dataclass(frozen=True)
class Halting:
    """How deep each position of a stack went; the encoder speaks before the decoder."""

    steps: Tensor
    """[B, T], or [R, W] for new positions behind a KV cache; 0 for padding."""
    remainder: Tensor
    """The weight of the last step, shaped the same."""


haltings = Channel[Halting]("haltings")
auxiliary_losses = Channel[Tensor]("auxiliary losses")
"""Costs a sentence [B], already weighted, which an objective adds for each of the sentence's target tokens."""

"""Label smoothing. Published systems mean different things by it; each variant is a kind."""

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import Field
from torch import Tensor

from qkv.config.base import Config, Kinds
from qkv.functional import losses as forms
from qkv.functional.losses import Smoothing

Frequencies = Callable[[], Tensor]
"""Counts the tokens [V] of the training targets; called only by a form that needs them."""


class SmoothingConfig(Config):
    """The target distribution of label smoothing."""

    def build(self, vocab_size: int, pad: int, frequencies: Frequencies) -> Smoothing:
        raise NotImplementedError


smoothings = Kinds[SmoothingConfig]("smoothing")
AnySmoothing = Annotated[SmoothingConfig, smoothings]


@smoothings.register
class NoSmoothing(SmoothingConfig):
    """Plain cross-entropy."""

    kind: Literal["none"] = "none"

    def build(self, vocab_size: int, pad: int, frequencies: Frequencies) -> Smoothing:
        return forms.no_smoothing(vocab_size)


@smoothings.register
class Uniform(SmoothingConfig):
    """(1 - amount) on the right token plus amount / V on every token (Szegedy 2016, PyTorch, Sockeye)."""

    kind: Literal["uniform"] = "uniform"
    amount: float = Field(default=0.1, ge=0, lt=1)
    """Probability mass taken from the right token."""

    def build(self, vocab_size: int, pad: int, frequencies: Frequencies) -> Smoothing:
        return forms.uniform(vocab_size, self.amount)


@smoothings.register
class Others(SmoothingConfig):
    """1 - amount on the right token, amount / (V - 1) on each other one (tensor2tensor, fairseq)."""

    kind: Literal["others"] = "others"
    amount: float = Field(default=0.1, ge=0, lt=1)
    """Probability mass taken from the right token."""

    def build(self, vocab_size: int, pad: int, frequencies: Frequencies) -> Smoothing:
        return forms.others(vocab_size, self.amount)


@smoothings.register
class OthersButPad(SmoothingConfig):
    """1 - amount on the right token, amount / (V - 2) on each other one but the padding (JoeyNMT)."""

    kind: Literal["others_but_pad"] = "others_but_pad"
    amount: float = Field(default=0.1, ge=0, lt=1)
    """Probability mass taken from the right token."""

    def build(self, vocab_size: int, pad: int, frequencies: Frequencies) -> Smoothing:
        return forms.others_but_pad(vocab_size, self.amount, pad)


@smoothings.register
class Unigram(SmoothingConfig):
    """(1 - amount) on the right token plus amount times each token's frequency in the training targets."""

    kind: Literal["unigram"] = "unigram"
    amount: float = Field(default=0.1, ge=0, lt=1)
    """Probability mass taken from the right token."""

    def build(self, vocab_size: int, pad: int, frequencies: Frequencies) -> Smoothing:
        return forms.unigram(frequencies(), self.amount)


@smoothings.register
class ConfidencePenalty(SmoothingConfig):
    """Cross-entropy minus beta times the entropy of the prediction (Pereyra 2017)."""

    kind: Literal["confidence_penalty"] = "confidence_penalty"
    beta: float = Field(default=0.1, ge=0)
    """Weight of the entropy."""

    def build(self, vocab_size: int, pad: int, frequencies: Frequencies) -> Smoothing:
        return forms.confidence_penalty(vocab_size, self.beta)

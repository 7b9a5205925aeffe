"""Noise on the decoder's input against error propagation; the targets do not change."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field
from torch import Tensor

from qkv.config.base import Config, Kinds
from qkv.functional.noise import choose, drop_tokens, mask_tokens, replace_tokens, swap_tokens
from qkv.functional.schedules import warm_up
from qkv.text.special import NAMES, SPECIAL, SpecialIds


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Changes some tokens of the decoder's input; never the start symbol or padding.

    Args:
        rate: Share of the target tokens that are changed.
        warmup: The rate grows linearly from 0 over this many updates.
        special: Ids of the special tokens.
    """

    rate: float = 0.1
    warmup: int = 0
    special: SpecialIds = SPECIAL

    def __call__(self, tgt_in: Tensor, update: int) -> Tensor:
        """The decoder's input [B, T] with noise; `update` counts from 1."""
        raise NotImplementedError

    def rate_at(self, update: int) -> float:
        return self.rate * warm_up(update, self.warmup)

    def eligible(self, tgt_in: Tensor) -> Tensor:
        return (tgt_in != self.special.pad) & (tgt_in != self.special.bos)


class NoiseConfig(Config):
    """A kind of noise on the decoder's input."""

    rate: float = Field(default=0.1, ge=0, le=1)
    """Share of the target tokens that are changed; never the start symbol or padding."""
    warmup: int = Field(default=0, ge=0)
    """The rate grows linearly from 0 over this many updates."""

    def build(self, special: SpecialIds, vocab_size: int) -> Noise:
        raise NotImplementedError


noises = Kinds[NoiseConfig]("noise")
AnyNoise = Annotated[NoiseConfig, noises]


@noises.register
class DropConfig(NoiseConfig):
    """Word drop: the token becomes <unk>, so that the decoder leans on the source."""

    kind: Literal["drop"] = "drop"

    def build(self, special: SpecialIds, vocab_size: int) -> "Drop":
        return Drop(rate=self.rate, warmup=self.warmup, special=special)


class Drop(Noise):
    """The token becomes <unk>."""

    def __call__(self, tgt_in: Tensor, update: int) -> Tensor:
        eligible, rate = self.eligible(tgt_in), self.rate_at(update)
        return drop_tokens(tgt_in, eligible, rate, self.special.unk)


@noises.register
class ReplaceConfig(NoiseConfig):
    """The token becomes one drawn uniformly from the vocabulary."""

    kind: Literal["replace"] = "replace"

    def build(self, special: SpecialIds, vocab_size: int) -> "Replace":
        return Replace(rate=self.rate, warmup=self.warmup, special=special, vocab_size=vocab_size)


@dataclass(frozen=True, kw_only=True)
class Replace(Noise):
    """The token becomes one drawn uniformly from the `vocab_size` tokens, special ones excepted."""

    vocab_size: int

    def __call__(self, tgt_in: Tensor, update: int) -> Tensor:
        eligible, rate = self.eligible(tgt_in), self.rate_at(update)
        return replace_tokens(tgt_in, eligible, rate, len(NAMES), self.vocab_size)


@noises.register
class MaskOutConfig(NoiseConfig):
    """The token becomes <mask>."""

    kind: Literal["mask"] = "mask"

    def build(self, special: SpecialIds, vocab_size: int) -> "MaskOut":
        return MaskOut(rate=self.rate, warmup=self.warmup, special=special)


class MaskOut(Noise):
    """The token becomes <mask>."""

    def __call__(self, tgt_in: Tensor, update: int) -> Tensor:
        eligible, rate = self.eligible(tgt_in), self.rate_at(update)
        return mask_tokens(tgt_in, eligible, rate, self.special.mask)


@noises.register
class SwapConfig(NoiseConfig):
    """A local shuffle of the chosen tokens: none moves by more than `distance`."""

    kind: Literal["swap"] = "swap"
    distance: int = Field(default=3, ge=1)
    """How far a token may move, counted in chosen tokens."""

    def build(self, special: SpecialIds, vocab_size: int) -> "Swap":
        return Swap(rate=self.rate, warmup=self.warmup, special=special, distance=self.distance)


@dataclass(frozen=True, kw_only=True)
class Swap(Noise):
    """A local shuffle of the chosen tokens: none moves by more than `distance`."""

    distance: int = 3

    def __call__(self, tgt_in: Tensor, update: int) -> Tensor:
        chosen = choose(self.eligible(tgt_in), self.rate_at(update))
        return swap_tokens(tgt_in, chosen, self.distance)

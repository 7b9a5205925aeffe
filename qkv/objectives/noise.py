"""Noise in the decoder's input against error propagation; the targets stay as they are."""

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from qkv.config.base import Config, Kinds
from qkv.functional.noise import choose, drop_tokens, mask_tokens, replace_tokens, swap_tokens
from qkv.functional.schedules import warm_up
from qkv.text.special import NAMES, SpecialIds


class NoiseConfig(Config):
    """One way to disturb what the decoder reads."""

    rate: float = Field(default=0.1, ge=0, le=1)
    """Share of the target tokens that are changed; never the start symbol or padding."""
    warmup: int = Field(default=0, ge=0)
    """The rate grows linearly from 0 over this many updates."""

    def rate_at(self, update: int) -> float:
        """`update` counts from 1."""
        return self.rate * warm_up(update, self.warmup)

    def apply(self, tgt_in: Tensor, update: int, special: SpecialIds, vocab_size: int) -> Tensor:
        raise NotImplementedError


noises = Kinds[NoiseConfig]("noise")
AnyNoise = Annotated[NoiseConfig, noises]


def _eligible(tgt_in: Tensor, special: SpecialIds) -> Tensor:
    return (tgt_in != special.pad) & (tgt_in != special.bos)


@noises.register
class Drop(NoiseConfig):
    """Word drop: the token becomes <unk>, so that the decoder leans on the source."""

    kind: Literal["drop"] = "drop"

    def apply(self, tgt_in: Tensor, update: int, special: SpecialIds, vocab_size: int) -> Tensor:
        return drop_tokens(
            tgt_in, _eligible(tgt_in, special), self.rate_at(update), special.unk, torch.default_generator
        )


@noises.register
class Replace(NoiseConfig):
    """The token becomes one drawn uniformly from the vocabulary."""

    kind: Literal["replace"] = "replace"

    def apply(self, tgt_in: Tensor, update: int, special: SpecialIds, vocab_size: int) -> Tensor:
        eligible, rate = _eligible(tgt_in, special), self.rate_at(update)
        return replace_tokens(tgt_in, eligible, rate, len(NAMES), vocab_size, torch.default_generator)


@noises.register
class MaskOut(NoiseConfig):
    """The token becomes <mask>."""

    kind: Literal["mask"] = "mask"

    def apply(self, tgt_in: Tensor, update: int, special: SpecialIds, vocab_size: int) -> Tensor:
        return mask_tokens(
            tgt_in, _eligible(tgt_in, special), self.rate_at(update), special.mask, torch.default_generator
        )


@noises.register
class Swap(NoiseConfig):
    """The chosen tokens change places among themselves, none by more than `distance` of them."""

    kind: Literal["swap"] = "swap"
    distance: int = Field(default=3, ge=1)
    """How far a token may move, counted in chosen tokens."""

    def apply(self, tgt_in: Tensor, update: int, special: SpecialIds, vocab_size: int) -> Tensor:
        chosen = choose(_eligible(tgt_in, special), self.rate_at(update), torch.default_generator)
        return swap_tokens(tgt_in, chosen, self.distance, torch.default_generator)

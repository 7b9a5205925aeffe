"""Normalisers: from the scores of a query to the weights of its keys."""

from collections.abc import Callable
from typing import Annotated, Literal

from torch import Tensor

from qkv.config.base import Config, Kinds
from qkv.functional.attention import entmax, masked_softmax, sparsemax

Normalizer = Callable[[Tensor, Tensor | None], Tensor]
"""(scores [B, H, Q, K], mask) -> weights; those of a row sum to 1, or are 0 where no key is allowed."""


class NormalizerConfig(Config):
    """How scores become weights."""

    kind: str

    @property
    def function(self) -> Normalizer:
        raise NotImplementedError


normalizers = Kinds[NormalizerConfig]("normalizer")
AnyNormalizer = Annotated[NormalizerConfig, normalizers]


@normalizers.register
class SoftmaxConfig(NormalizerConfig):
    """exp(s_j) / Σ exp(s), the paper: every key gets a positive weight."""

    kind: Literal["softmax"] = "softmax"

    @property
    def function(self) -> Normalizer:
        return masked_softmax


@normalizers.register
class SparsemaxConfig(NormalizerConfig):
    """max(0, s_j - τ): most keys get weight 0 (Martins and Astudillo 2016)."""

    kind: Literal["sparsemax"] = "sparsemax"

    @property
    def function(self) -> Normalizer:
        return sparsemax


@normalizers.register
class EntmaxConfig(NormalizerConfig):
    """max(0, s_j / 2 - τ)²: half-way between softmax and sparsemax (Peters et al. 2019)."""

    kind: Literal["entmax"] = "entmax"

    @property
    def function(self) -> Normalizer:
        return entmax

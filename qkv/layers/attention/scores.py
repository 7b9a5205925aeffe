"""The score of a query and a key: one class per kind."""

import math
from typing import Annotated, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from qkv.config.base import Config, Kinds
from qkv.functional.attention import scaled_dot_scores
from qkv.kernels.attention import additive_scores


class ScoreConfig(Config):
    """The score of a query and a key."""

    kind: str

    @property
    def alike(self) -> bool:
        """Whether it has no parameters of single heads."""
        return False

    def build(self, num_heads: int, head_width: int) -> "AttentionScore":
        raise NotImplementedError


scores = Kinds[ScoreConfig]("score")
AnyScore = Annotated[ScoreConfig, scores]


class AttentionScore(nn.Module):
    """q'·k' / √E of transformed queries q' and keys k'. This base class transforms nothing."""

    is_dot: bool = True
    """Whether it is a dot product, so that the fast kernel can compute it."""
    is_scaled_dot: bool = False
    """Whether it is the paper's score, so that inference can use PyTorch's attention."""

    def queries(self, q: Tensor) -> Tensor:
        """[B, H, Q, E]"""
        return q

    def keys(self, k: Tensor) -> Tensor:
        """[B, H, K, E]"""
        return k

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        """[B, H, Q, K] of transformed queries and keys."""
        return scaled_dot_scores(q, k)


@scores.register
class ScaledDotConfig(ScoreConfig):
    """q·k / √E, the paper."""

    kind: Literal["scaled_dot"] = "scaled_dot"

    @property
    def alike(self) -> bool:
        return True

    def build(self, num_heads: int, head_width: int) -> AttentionScore:
        return ScaledDot()


class ScaledDot(AttentionScore):
    """q·k / √E"""

    is_scaled_dot = True


@scores.register
class DotConfig(ScoreConfig):
    """q·k (Luong et al. 2015); wide heads saturate the softmax."""

    kind: Literal["dot"] = "dot"

    @property
    def alike(self) -> bool:
        return True

    def build(self, num_heads: int, head_width: int) -> AttentionScore:
        return Dot()


class Dot(AttentionScore):
    """q·k"""

    def queries(self, q: Tensor) -> Tensor:
        return q * math.sqrt(q.shape[-1])


@scores.register
class GeneralConfig(ScoreConfig):
    """q·W k with one matrix W per head (Luong et al. 2015)."""

    kind: Literal["general"] = "general"

    def build(self, num_heads: int, head_width: int) -> AttentionScore:
        return General(num_heads, head_width)


class General(Dot):
    """q·W k; W starts as N(0, 1 / E²), so that scores vary about as much as those of `scaled_dot`."""

    def __init__(self, num_heads: int, head_width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_heads, head_width, head_width))
        nn.init.normal_(self.weight, std=1 / head_width)

    def queries(self, q: Tensor) -> Tensor:
        return super().queries(q @ self.weight)


@scores.register
class CosineScoreConfig(ScoreConfig):
    """cos(q, k) times a learned scale per head."""

    kind: Literal["cosine"] = "cosine"

    def build(self, num_heads: int, head_width: int) -> AttentionScore:
        return Cosine(num_heads)


class Cosine(AttentionScore):
    """exp(s_h) cos(q, k); the factor, the inverse of a temperature, starts at 10."""

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.full((num_heads,), math.log(10)))

    def queries(self, q: Tensor) -> Tensor:
        return F.normalize(q, dim=-1) * (self.log_scale.exp() * math.sqrt(q.shape[-1]))[:, None, None]

    def keys(self, k: Tensor) -> Tensor:
        return F.normalize(k, dim=-1)


@scores.register
class AdditiveConfig(ScoreConfig):
    """v·tanh(q + k) with one v per head (Bahdanau et al. 2015); much slower than a dot product."""

    kind: Literal["additive"] = "additive"

    def build(self, num_heads: int, head_width: int) -> AttentionScore:
        return Additive(num_heads, head_width)


class Additive(AttentionScore):
    """v·tanh(q + k), v starts as N(0, 1 / E)."""

    is_dot = False

    def __init__(self, num_heads: int, head_width: int) -> None:
        super().__init__()
        self.v = nn.Parameter(torch.empty(num_heads, head_width))
        nn.init.normal_(self.v, std=head_width**-0.5)

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return additive_scores(q, k, self.v)

"""The position-wise feed-forward network, section 3.3 of the paper, and gated variants."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Literal

from torch import Tensor, nn
from torch.nn import functional as F

from qkv.config.base import Config, Kinds
from qkv.core.devices import by_hand
from qkv.kernels.half.feed_forward import half_feed_forward
from qkv.kernels.half.linears import HalfLinears
from qkv.kernels.recompute import in_slices
from qkv.layers.dropout import Dropout


class FeedForwardConfig(Config):
    """The network applied to each position."""

    kind: str

    def build(self, d_model: int, d_ff: int, dropout: float) -> "PositionWise":
        raise NotImplementedError


feed_forwards = Kinds[FeedForwardConfig]("feed_forward")
AnyFeedForward = Annotated[FeedForwardConfig, feed_forwards]


def _linear(width_in: int, width_out: int, bias: bool = True) -> nn.Linear:
    linear = nn.Linear(width_in, width_out, bias)
    nn.init.xavier_uniform_(linear.weight)
    if bias:
        nn.init.zeros_(linear.bias)
    return linear


class PositionWise(nn.Module):
    """A position-wise function; `chunk` positions are computed at a time (Kitaev et al. 2020)."""

    chunk: int | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.chunk is None:
            return self.transform(x)
        return in_slices(self.transform, x, self.chunk, list(self.parameters()))

    def transform(self, x: Tensor) -> Tensor:
        """The function, for all positions of `x` at once."""
        raise NotImplementedError

    def for_inference(self) -> Callable[[Tensor], Tensor]:
        """`forward` without dropout, its weights bound as plain tensors (see `Residual.for_inference`)."""
        bound, chunk = self.bound(), self.chunk
        return bound if chunk is None else lambda x: in_slices(bound, x, chunk)

    def bound(self) -> Callable[[Tensor], Tensor]:
        """`transform` for inference."""
        return self.transform


class FeedForward(PositionWise):
    """activation(x W_1 + b_1) W_2 + b_2

    Examples:
        >>> import torch
        >>> from qkv import FeedForward
        >>> FeedForward(d_model=64, d_ff=256, activation=torch.nn.functional.gelu)(torch.randn(2, 5, 64)).shape
        torch.Size([2, 5, 64])
    """

    def __init__(
        self, d_model: int, d_ff: int, dropout: float = 0.0, activation: Callable[[Tensor], Tensor] = F.relu_
    ) -> None:
        super().__init__()
        self.inner = _linear(d_model, d_ff)
        self.outer = _linear(d_ff, d_model)
        self.dropout = Dropout(dropout)
        self.activation = activation

    def transform(self, x: Tensor) -> Tensor:
        # On rows: a result of more axes would be a view, and an activation that works in place on a view makes
        # autograd copy it three times.
        hidden = self.activation(self.inner(x.flatten(0, -2)))
        return self.outer(self.dropout(hidden)).view_as(x)

    def bound(self) -> Callable[[Tensor], Tensor]:
        inner, outer, activation = self.inner, self.outer, self.activation
        w_1, b_1, w_2, b_2 = inner.weight, inner.bias, outer.weight, outer.bias
        return lambda x: F.linear(activation(F.linear(x, w_1, b_1)), w_2, b_2)


class ReluFeedForward(FeedForward):
    """max(0, x W_1 + b_1) W_2 + b_2

    In 16 bits on a CPU one function does all of it; hooks on the layers `inner` and `outer` are not called then.
    """

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.0) -> None:
        # In place: the backward pass of relu needs only its result.
        super().__init__(d_model, d_ff, dropout, F.relu_)

    def transform(self, x: Tensor) -> Tensor:
        low = HalfLinears.current()
        if low is None or not by_hand(x) or (self.training and self.dropout.rate > 0):
            return super().transform(x)
        return half_feed_forward(x, self.inner.weight, self.inner.bias, self.outer.weight, self.outer.bias, low)


@feed_forwards.register
class ReluConfig(FeedForwardConfig):
    """max(0, x W_1 + b_1) W_2 + b_2, the paper."""

    kind: Literal["relu"] = "relu"

    def build(self, d_model: int, d_ff: int, dropout: float) -> "PositionWise":
        return ReluFeedForward(d_model, d_ff, dropout)


@feed_forwards.register
class GeluConfig(FeedForwardConfig):
    """GELU(x W_1 + b_1) W_2 + b_2, as in BERT and GPT."""

    kind: Literal["gelu"] = "gelu"

    def build(self, d_model: int, d_ff: int, dropout: float) -> "PositionWise":
        return FeedForward(d_model, d_ff, dropout, F.gelu)


@feed_forwards.register
class GeluTanhConfig(FeedForwardConfig):
    """GELU by its tanh approximation, x/2 (1 + tanh(√(2/π) (x + 0.044715 x³))), as GPT-2 was trained with."""

    kind: Literal["gelu_tanh"] = "gelu_tanh"

    def build(self, d_model: int, d_ff: int, dropout: float) -> "PositionWise":
        return FeedForward(d_model, d_ff, dropout, partial(F.gelu, approximate="tanh"))


@feed_forwards.register
class SwigluConfig(FeedForwardConfig):
    """(SiLU(x W_g) * (x W_1)) W_2 without biases (Shazeer 2020); 1.5 times the parameters at the same d_ff."""

    kind: Literal["swiglu"] = "swiglu"

    def build(self, d_model: int, d_ff: int, dropout: float) -> "PositionWise":
        return SwigluFeedForward(d_model, d_ff, dropout)


@feed_forwards.register
class GegluConfig(FeedForwardConfig):
    """(GELU(x W_g) * (x W_1)) W_2 without biases (Shazeer 2020), with the tanh approximation, as in T5 1.1."""

    kind: Literal["geglu"] = "geglu"

    def build(self, d_model: int, d_ff: int, dropout: float) -> "PositionWise":
        return GatedFeedForward(d_model, d_ff, dropout, partial(F.gelu, approximate="tanh"))


class GatedFeedForward(PositionWise):
    """(activation(x W_g) * (x W_1)) W_2"""

    def __init__(
        self, d_model: int, d_ff: int, dropout: float = 0.0, activation: Callable[[Tensor], Tensor] = F.silu
    ) -> None:
        super().__init__()
        self.gate = _linear(d_model, d_ff, bias=False)
        self.inner = _linear(d_model, d_ff, bias=False)
        self.outer = _linear(d_ff, d_model, bias=False)
        self.dropout = Dropout(dropout)
        self.activation = activation

    def transform(self, x: Tensor) -> Tensor:
        return self.outer(self.dropout(self.activation(self.gate(x)) * self.inner(x)))

    def bound(self) -> Callable[[Tensor], Tensor]:
        w_g, w_1, w_2, activation = self.gate.weight, self.inner.weight, self.outer.weight, self.activation
        return lambda x: F.linear(activation(F.linear(x, w_g)) * F.linear(x, w_1), w_2)


class SwigluFeedForward(GatedFeedForward):
    """(SiLU(x W_g) * (x W_1)) W_2"""

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.0) -> None:
        super().__init__(d_model, d_ff, dropout, F.silu)

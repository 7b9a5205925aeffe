"""The vocabulary projection and its loss in one pass, together with the gradients.

The fast twin of `smoothed_cross_entropy(log_softmax(hidden Wᵀ + b), targets, smoothing)`. The logits of a
small model are its biggest tensor: here they exist for one chunk of rows at a time, in a buffer that
stays near the processor, and their gradient is used before the next chunk overwrites it.

With z = W h + b, Z = Σ_v exp z_v and q = confidence · δ_y + background:
    L = Σ_v q_v · log Z - confidence · z_y - Σ_v background_v z_v,    ∂L/∂z = Σ_v q_v · exp(z) / Z - q.
The background is the same for every row, so its share of the loss and of the gradients is a product
with W that is computed once: Σ_v background_v z_v = h · (Wᵀ background) + b · background. And 1 / Z is a
factor of a row, so it scales the narrow h instead of the wide exp(z).
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from qkv.functional.smoothing import Smoothing


def linear_cross_entropy(
    hidden: Float[Tensor, "N D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, " V"] | None,
    targets: Int[Tensor, " N"],
    smoothing: Smoothing,
    weights: Float[Tensor, " N"] | None = None,
    chunk: int = 256,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Σ_n w_n CE(q(· | y_n), softmax(W h_n + b)), and Σ_n w_n (-log p(y_n)), through which no gradient flows.

    The first includes the entropy penalty where the smoothing asks for one. `bias` must be finite.
    """
    inputs = (hidden, weight, bias)
    wanted = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in inputs)
    loss, nll = _LinearCrossEntropy.apply(
        hidden, weight, bias, targets, smoothing, weights, chunk, wanted, _product_type(hidden, weight)
    )
    return loss, nll


def _product_type(hidden: Tensor, weight: Tensor) -> torch.dtype:
    device = hidden.device.type
    if torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return torch.promote_types(hidden.dtype, weight.dtype)


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        smoothing: Smoothing,
        weights: Tensor | None,
        chunk: int,
        wanted: bool,
        product: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        with torch.autocast(hidden.device.type, enabled=False):
            run = _Pass(hidden, weight, bias, smoothing, min(chunk, max(len(hidden), 1)), product, wanted)
            row_weights = run.sums.new_ones(len(hidden)) if weights is None else weights.to(run.sums)
            for start in range(0, len(hidden), chunk):
                run.add(start, targets[start : start + chunk], row_weights[start : start + chunk])
            ctx.gradients = run.gradients(row_weights) if wanted else None
        loss, nll = run.sums.unbind()
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        scaled = [None if gradient is None else gradient * upstream.to(gradient) for gradient in ctx.gradients]
        return (*scaled, None, None, None, None, None, None)


class _Pass:
    """One walk over the rows: the two sums and, if they are wanted, the gradients so far."""

    def __init__(
        self,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        smoothing: Smoothing,
        rows: int,
        product: torch.dtype,
        wanted: bool,
    ) -> None:
        wide = torch.promote_types(product, torch.float32)
        self.inputs = (hidden, weight, bias)
        self.hidden = hidden.to(product)
        self.weight = weight.to(product)
        self.bias = None if bias is None else bias.to(wide)
        self.smoothing = smoothing
        self.background = smoothing.background.to(weight.device, wide)
        self.total = smoothing.confidence + float(self.background.sum())
        self.pull = self.background @ weight.to(wide)
        self.logits = weight.new_empty(rows, len(weight), dtype=wide)
        self.sums = weight.new_zeros(2, dtype=wide)
        self.wanted = wanted
        if wanted:
            self.d_hidden = torch.empty_like(self.hidden, dtype=wide)
            self.d_weight = torch.zeros_like(self.weight, dtype=wide)
            self.d_bias = torch.zeros_like(self.background)

    def add(self, start: int, targets: Tensor, row_weights: Tensor) -> None:
        """Take in the rows from `start` on: their losses, then their gradients."""
        hidden = self.hidden[start : start + len(targets)]
        z = self._logits(hidden)
        gold = z.gather(1, targets[:, None]).squeeze(1)
        smooth = hidden.to(z.dtype) @ self.pull
        if self.bias is not None:
            smooth = smooth + self.background @ self.bias
        highest = z.amax(dim=1)
        z.sub_(highest[:, None])
        entropy_factor = None if self.smoothing.entropy_penalty == 0 else z.clone()
        scores = z.exp_()
        normaliser = scores.sum(dim=1)
        log_z = highest + normaliser.log()
        losses = self.total * log_z - self.smoothing.confidence * gold - smooth
        if entropy_factor is not None:
            losses = losses - self._penalise(scores, entropy_factor, normaliser)
        self.sums += torch.stack([row_weights @ losses, row_weights @ (log_z - gold)])
        if self.wanted:
            scores.scatter_add_(1, targets[:, None], (-self.smoothing.confidence / self.total * normaliser)[:, None])
            self._add_gradients(start, hidden, scores, self.total * row_weights / normaliser, row_weights)

    def _logits(self, hidden: Tensor) -> Tensor:
        z = self.logits[: len(hidden)]
        if self.weight.dtype == z.dtype:
            torch.mm(hidden, self.weight.t(), out=z)
        else:
            z.copy_(hidden @ self.weight.t())
        return z if self.bias is None else z.add_(self.bias)

    def _penalise(self, scores: Tensor, log_scores: Tensor, normaliser: Tensor) -> Tensor:
        """β H(p) a row; `scores` takes the gradient's extra factor, since ∂H/∂z_v = -p_v (log p_v + H)."""
        beta = self.smoothing.entropy_penalty
        log_p = log_scores.sub_(normaliser.log()[:, None])
        entropy = -(scores * log_p).sum(dim=1) / normaliser
        scores.mul_(log_p.add_(entropy[:, None]).mul_(beta / self.total).add_(1))
        return beta * entropy

    def _add_gradients(self, start: int, hidden: Tensor, g: Tensor, scale: Tensor, row_weights: Tensor) -> None:
        """`g` times `scale` a row is ∂L/∂z without the background's share."""
        narrow = g.to(self.weight.dtype)
        scaled = (hidden * scale[:, None]).to(narrow.dtype)
        d_hidden = self.d_hidden[start : start + len(g)]
        d_hidden.copy_(narrow @ self.weight).mul_(scale[:, None]).addr_(row_weights, self.pull, alpha=-1)
        if narrow.dtype == self.d_weight.dtype:
            self.d_weight.addmm_(narrow.t(), scaled)
        else:
            self.d_weight += narrow.t() @ scaled
        if self.bias is not None:
            self.d_bias += scale @ g

    def gradients(self, row_weights: Tensor) -> tuple[Tensor | None, ...]:
        """∂L/∂hidden, ∂L/∂weight and ∂L/∂bias, now with the background's share in the last two."""
        self.d_weight.addr_(self.background, row_weights @ self.hidden.to(row_weights), alpha=-1)
        self.d_bias -= self.background * row_weights.sum()
        found = (self.d_hidden, self.d_weight, self.d_bias)
        return tuple(None if x is None else g.to(x.dtype) for x, g in zip(self.inputs, found, strict=True))

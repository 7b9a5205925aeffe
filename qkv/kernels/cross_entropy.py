"""The vocabulary projection and its loss in one pass, together with the gradients.

The fast twin of `smoothed_cross_entropy(log_softmax(hidden Wᵀ + b), targets, smoothing)`. The logits of a
small model are its biggest tensor: here they exist for one chunk of rows at a time, in a buffer that
stays near the processor, and their gradient is used before the next chunk overwrites it.

With z = W h + b, Z = Σ_v exp z_v and q = confidence · δ_y + background:
    L = Σ_v q_v · log Z - confidence · z_y - Σ_v background_v z_v,    ∂L/∂z = Σ_v q_v · exp(z) / Z - q.
1 / Z is a factor of a row, so it scales the narrow h instead of the wide exp(z).
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from qkv.functional.smoothing import Smoothing
from qkv.kernels.projection import Projection, loss_of_walk


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

    def walk(projection: Projection) -> tuple[Tensor, Tensor]:
        run = _Pass(projection, smoothing)
        row_weights = run.sums.new_ones(len(hidden)) if weights is None else weights.to(run.sums)
        for start in range(0, len(hidden), chunk):
            run.add(start, targets[start : start + chunk], row_weights[start : start + chunk])
        return run.sums, row_weights

    return loss_of_walk(hidden, weight, bias, smoothing, min(chunk, max(len(hidden), 1)), walk)


class _Pass:
    """One walk over the rows: the two sums so far; the gradients are the projection's."""

    def __init__(self, projection: Projection, smoothing: Smoothing) -> None:
        self.projection = projection
        self.smoothing = smoothing
        self.sums = projection.buffer.new_zeros(2)

    def add(self, start: int, targets: Tensor, row_weights: Tensor) -> None:
        """Take in the rows from `start` on: their losses, then their gradients."""
        projection, total = self.projection, self.projection.total
        hidden = projection.hidden[start : start + len(targets)]
        z = projection.logits(hidden)
        gold = z.gather(1, targets[:, None]).squeeze(1)
        highest = z.amax(dim=1)
        z.sub_(highest[:, None])
        entropy_factor = None if self.smoothing.entropy_penalty == 0 else z.clone()
        scores = z.exp_()
        normaliser = scores.sum(dim=1)
        log_z = highest + normaliser.log()
        losses = total * log_z - self.smoothing.confidence * gold - projection.smooth(hidden)
        if entropy_factor is not None:
            losses = losses - self._penalise(scores, entropy_factor, normaliser)
        self.sums += torch.stack([row_weights @ losses, row_weights @ (log_z - gold)])
        if projection.wanted:
            scores.scatter_add_(1, targets[:, None], (-self.smoothing.confidence / total * normaliser)[:, None])
            projection.add_gradients(start, hidden, scores, total * row_weights / normaliser, row_weights)

    def _penalise(self, scores: Tensor, log_scores: Tensor, normaliser: Tensor) -> Tensor:
        """β H(p) a row; `scores` takes the gradient's extra factor, since ∂H/∂z_v = -p_v (log p_v + H)."""
        beta = self.smoothing.entropy_penalty
        log_p = log_scores.sub_(normaliser.log()[:, None])
        entropy = -(scores * log_p).sum(dim=1) / normaliser
        scores.mul_(log_p.add_(entropy[:, None]).mul_(beta / self.projection.total).add_(1))
        return beta * entropy

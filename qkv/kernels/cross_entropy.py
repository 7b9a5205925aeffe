"""The vocabulary projection and its loss in one pass, together with the gradients.

The fast twin of `smoothed_cross_entropy(log_softmax(hidden Wᵀ + b), targets, smoothing)`. The logits of a
small model are its biggest tensor: here they exist for one chunk of rows at a time, in a buffer that
stays in the cache, and their gradient is used before the next chunk overwrites it.

With z = W h + b, Z = Σ_v exp z_v and q = confidence · δ_y + background:
    L = Σ_v q_v · log Z - confidence · z_y - Σ_v background_v z_v,    ∂L/∂z = Σ_v q_v · exp(z) / Z - q.
1 / Z is one factor per row, so it scales the narrow h instead of the wide exp(z).
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from qkv.functional.losses import AgreementFactors, Smoothing
from qkv.kernels.projection import ChunkedProjection, loss_of_walk


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

    def walk(projection: ChunkedProjection) -> tuple[Tensor, Tensor]:
        run = _Pass(projection, smoothing)
        row_weights = run.sums.new_ones(len(hidden)) if weights is None else weights.to(run.sums)
        for start in range(0, len(hidden), chunk):
            run.add(start, targets[start : start + chunk], row_weights[start : start + chunk])
        return run.sums, row_weights

    return loss_of_walk(hidden, weight, bias, smoothing, min(chunk, max(len(hidden), 1)), walk)


class _Pass:
    """One walk over the rows: the two sums so far. The projection accumulates the gradients."""

    def __init__(self, projection: ChunkedProjection, smoothing: Smoothing) -> None:
        self.projection = projection
        self.smoothing = smoothing
        self.sums = projection.buffer.new_zeros(2)

    def add(self, start: int, targets: Tensor, row_weights: Tensor) -> None:
        """Process the rows from `start` on: their losses, then their gradients."""
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


def linear_consistent_cross_entropy(
    hidden: Float[Tensor, "N 2 D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, " V"] | None,
    targets: Int[Tensor, " N"],
    smoothing: Smoothing,
    agreement: AgreementFactors,
    weights: Float[Tensor, " N"] | None = None,
    chunk: int = 128,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Σ_n w_n L_n over the pairs of rows, and Σ_n w_n (-log p₁(y_n)), through which no gradient flows.

    `chunk` counts pairs. `bias` must be finite.
    """

    def walk(projection: ChunkedProjection) -> tuple[Tensor, Tensor]:
        run = _PairPass(projection, smoothing, agreement)
        pair_weights = run.sums.new_ones(len(targets)) if weights is None else weights.to(run.sums)
        for start in range(0, len(targets), chunk):
            run.add(start, targets[start : start + chunk], pair_weights[start : start + chunk])
        return run.sums, run.row_weights(pair_weights)

    rows = 2 * min(chunk, max(len(targets), 1))
    return loss_of_walk(hidden.flatten(0, 1), weight, bias, smoothing, rows, walk)


class _PairPass:
    """One walk over the pairs of rows: the two sums so far. The projection accumulates the gradients."""

    def __init__(self, projection: ChunkedProjection, smoothing: Smoothing, agreement: AgreementFactors) -> None:
        self.projection = projection
        self.smoothing = smoothing
        self.agreement = agreement
        self.sums = projection.buffer.new_zeros(2)
        self.shares = self.sums.new_tensor([agreement.first, agreement.second])
        self.gradient = torch.empty_like(projection.buffer)

    def row_weights(self, pair_weights: Tensor) -> Tensor:
        """The weight of each row's cross-entropy."""
        return torch.outer(pair_weights, self.shares).flatten()

    def add(self, start: int, targets: Tensor, pair_weights: Tensor) -> None:
        """Process the pairs from `start` on: their losses, then their gradients."""
        projection, confidence = self.projection, self.smoothing.confidence
        hidden = projection.hidden[2 * start : 2 * (start + len(targets))]
        z = projection.logits(hidden).unflatten(0, (len(targets), 2))
        labels = targets[:, None, None].expand(-1, 2, 1)
        gold = z.gather(2, labels).squeeze(2)
        g = self.gradient[: len(hidden)].view_as(z)
        u = torch.sub(z[:, 0], z[:, 1], out=g[:, 1])
        kept = None if self.smoothing.entropy_penalty == 0 else z.clone()
        p, log_z = _softmax_in_place(z)
        losses = projection.total * log_z - confidence * gold - projection.smooth(hidden).view_as(gold)
        if kept is not None:
            losses = losses - self._penalise(p, kept, log_z)
        means = torch.stack([torch.mul(side, u, out=g[:, 0]).sum(dim=1) for side in p.unbind(dim=1)], dim=1)
        losses = losses @ self.shares + self._divergence(means, log_z)
        self.sums += torch.stack([pair_weights @ losses, pair_weights @ (log_z - gold)[:, 0]])
        if projection.wanted:
            self._fill(g, u, p, means)
            g.scatter_add_(2, labels, (-confidence * self.shares)[:, None].expand_as(labels))
            g = g if kept is None else g.add_(kept)
            scale = pair_weights.repeat_interleave(2)
            projection.add_gradients(2 * start, hidden, g.flatten(0, 1), scale, self.row_weights(pair_weights))

    def _penalise(self, p: Tensor, z: Tensor, log_z: Tensor) -> Tensor:
        """β H(p) a row; its share of the gradient, -β ∂H/∂z = β p (z - E[z]), takes the place of z."""
        beta, mean = self.smoothing.entropy_penalty, (p * z).sum(dim=2)
        z.sub_(mean[:, :, None]).mul_(p).mul_(beta * self.shares[:, None])
        return beta * (log_z - mean)

    def _divergence(self, means: Tensor, log_z: Tensor) -> Tensor:
        log_ratio = log_z[:, 0] - log_z[:, 1]
        forward, backward = means[:, 0] - log_ratio, log_ratio - means[:, 1]
        return self.agreement.forward * forward + self.agreement.backward * backward

    def _fill(self, g: Tensor, u: Tensor, p: Tensor, means: Tensor) -> None:
        """Into `g`, whose second row of a pair holds u: ∂L/∂z without the targets and the background."""
        total, agreement = self.projection.total, self.agreement
        forward, backward = (0.0, 0.0) if agreement.fixed else (agreement.forward, agreement.backward)
        one, two = p.unbind(dim=1)
        rest = agreement.first * total + backward - forward * means[:, :1]
        torch.add(rest, u, alpha=forward, out=g[:, 0]).mul_(one)
        if backward:
            g[:, 0].add_(two, alpha=-backward)
        rest = agreement.second * total + agreement.forward + agreement.backward * means[:, 1:]
        torch.add(rest, u, alpha=-agreement.backward, out=g[:, 1]).mul_(two).add_(one, alpha=-agreement.forward)


def _softmax_in_place(z: Tensor) -> tuple[Tensor, Tensor]:
    """softmax(z) in place, and log Z = z - log p of the most probable token, whose p is at least 1 / V."""
    highest = z.amax(dim=2)
    p = torch.softmax(z, dim=2, out=z)
    return p, highest - p.amax(dim=2).log()

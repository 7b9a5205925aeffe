"""CTC for a batch, given only what it needs: at each position the log-probabilities of the blank and of the target.

Fast twins of `functional.parallel.ctc`. Column 0 of `picked` is the blank, column 1 + i the i-th token of the target,
so the width is that of the longest target and not that of the vocabulary.
"""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

Picked = Float[Tensor, "B T C"]
Targets = Int[Tensor, "B U"]
Lengths = Int[Tensor, " B"]


def ctc_fits(targets: Targets, tgt_lengths: Lengths, path_lengths: Lengths) -> Bool[Tensor, " B"]:
    """|Y| + equal neighbours ≤ T: whether any path collapses to the target."""
    inside = torch.arange(1, max(targets.shape[1], 1), device=targets.device) < tgt_lengths[:, None]
    twins = ((targets[:, 1:] == targets[:, :-1]) & inside).sum(dim=1)
    return tgt_lengths + twins <= path_lengths


def ctc_nll(picked: Picked, targets: Targets, tgt_lengths: Lengths, path_lengths: Lengths) -> Float[Tensor, " B"]:
    """-log P(Y) of each row; inf where no path fits. Positions beyond the lengths are ignored."""
    nll: Tensor = _CtcNll.apply(picked, _classes(targets), tgt_lengths, path_lengths)
    return nll


def _classes(targets: Tensor) -> Tensor:
    """1 + the first index of each token in its target, so that equal tokens share a class."""
    equal: Tensor = targets[:, :, None] == targets[:, None, :]
    # argmax is undefined on an empty row.
    return 1 + equal.int().argmax(dim=2) if targets.shape[1] else targets


class _CtcNll(torch.autograd.Function):
    """PyTorch's loss over the columns, whose gradient is p - γ, with γ how often the paths to Y pass each column.

    It includes p because it expects the gradient of a softmax to follow. The rest of the vocabulary is missing here, so
    the gradient with respect to the columns themselves, -γ, is extracted.
    """

    @staticmethod
    def forward(ctx: Any, picked: Tensor, classes: Tensor, tgt_lengths: Tensor, path_lengths: Tensor) -> Tensor:
        wanted = ctx.needs_input_grad[0]
        wide = picked.detach().to(torch.promote_types(picked.dtype, torch.float32)).requires_grad_(wanted)
        with torch.set_grad_enabled(wanted):
            nll = F.ctc_loss(wide.transpose(0, 1), classes, path_lengths, tgt_lengths, blank=0, reduction="none")
            found = torch.autograd.grad(nll.sum(), wide)[0] if wanted else None
        if found is not None:
            inside = torch.arange(picked.shape[1], device=picked.device) < path_lengths[:, None]
            counts = inside & nll.isfinite()[:, None]
            ctx.passes = torch.where(counts[..., None], wide.detach().exp() - found, 0.0).to(picked.dtype)
        return nll.detach()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        return -ctx.passes * upstream.to(ctx.passes)[:, None, None], None, None, None


def ctc_alignment(
    picked: Picked, targets: Targets, tgt_lengths: Lengths, path_lengths: Lengths, blank: int
) -> Int[Tensor, "B T"]:
    """The most probable path to each target; blanks after the path and where no path fits.

    A constant added to all columns of a position changes nothing, so logits may be given instead of log-probabilities.
    """
    batch, positions, _ = picked.shape
    states = torch.full((batch, 2 * targets.shape[1] + 1), blank, device=targets.device)
    states[:, 1::2] = targets
    column = torch.zeros(states.shape[1], dtype=torch.long, device=targets.device)
    column[1::2] = torch.arange(1, targets.shape[1] + 1, device=targets.device)
    seen = picked[:, :, column]
    skips = torch.zeros_like(states, dtype=torch.bool)
    skips[:, 3::2] = targets[:, 1:] != targets[:, :-1]
    back, last = _walk_forward(seen, skips, tgt_lengths, path_lengths)
    path = torch.full((batch, positions), blank, device=targets.device)
    at = last
    for time in range(positions - 1, -1, -1):
        inside = time < path_lengths
        path[:, time] = torch.where(inside, states.gather(1, at[:, None])[:, 0], blank)
        if time:
            at = torch.where(inside, at - back[time - 1].gather(1, at[:, None])[:, 0], at)
    fits = ctc_fits(targets, tgt_lengths, path_lengths)
    return path.masked_fill(~fits[:, None], blank)


def _walk_forward(
    seen: Tensor, skips: Tensor, tgt_lengths: Tensor, path_lengths: Tensor
) -> tuple[list[Tensor], Tensor]:
    """For each step how far back the best previous state lies (0, 1, 2), and the best last state of each row."""
    batch, positions, width = seen.shape
    never = seen.new_full((batch, 2), -torch.inf)
    score = torch.full_like(seen[:, 0], -torch.inf)
    score[:, :2] = seen[:, 0, :2]
    back: list[Tensor] = []
    for time in range(1, positions):
        padded = torch.cat([never, score], dim=1)
        skipped = padded[:, :width].masked_fill(~skips, -torch.inf)
        # The farthest first: ties go to the earlier state, as in the definition.
        best, choice = torch.stack([skipped, padded[:, 1 : width + 1], score]).max(dim=0)
        inside = (time < path_lengths)[:, None]
        score = torch.where(inside, best + seen[:, time], score)
        back.append(2 - choice)
    ends = torch.stack([2 * tgt_lengths - 1, 2 * tgt_lengths], dim=1).clamp(min=0)
    return back, ends.gather(1, score.gather(1, ends).argmax(dim=1, keepdim=True))[:, 0]

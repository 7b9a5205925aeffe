"""The graph of DA-Transformer for a batch: the sum over all paths that emit the target, and the best of them.

Fast twins of `functional.parallel.dag`, with a loop over the tokens of the target only. `said` [B, vertices, U] are the
log-probabilities of the target's tokens at each vertex, so its width is not that of the vocabulary.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

TokenScores = Float[Tensor, "B vertices U"]
LinkScores = Float[Tensor, "B vertices vertices"]
Lengths = Int[Tensor, " B"]


def batched_transitions(scores: LinkScores, lengths: Lengths) -> LinkScores:
    """log E of graphs with `lengths` vertices: softmax over the later vertices, -inf elsewhere."""
    at = torch.arange(scores.shape[1], device=scores.device)
    behind = (at > at[:, None]) & (at < lengths[:, None, None])
    # The last vertex has no later one, and a softmax over nothing is NaN.
    softened = scores.masked_fill(~behind & behind.any(dim=2, keepdim=True), -torch.inf)
    wide = torch.promote_types(scores.dtype, torch.float32)
    return softened.log_softmax(dim=2, dtype=wide).masked_fill(~behind, -torch.inf)


def dag_nll(said: TokenScores, links: LinkScores, tgt_lengths: Lengths, lengths: Lengths) -> Float[Tensor, " B"]:
    """-log P(Y) of each row; inf where the target needs more vertices than there are."""
    nll: Tensor = _DagNll.apply(said, links, tgt_lengths, lengths)
    return nll


def dag_visits(
    said: TokenScores, links: LinkScores, tgt_lengths: Lengths, lengths: Lengths
) -> Float[Tensor, "B vertices"]:
    """Expected visits of each vertex by the paths that emit Y; their sum is |Y|, or 0 where Y does not fit."""
    with torch.enable_grad():
        said = said.detach().requires_grad_()
        nll = dag_nll(said, links.detach(), tgt_lengths, lengths)
    return -torch.autograd.grad(nll.sum(), said)[0].sum(dim=2)


class _DagNll(torch.autograd.Function):
    """Forward and backward sums in log space; the gradient is how often the paths to Y pass a vertex or a link.

    f_t(v) = p_v(y_t) Σ_u f_{t-1}(u) E_uv        g_t(u) = Σ_v E_uv p_v(y_{t+1}) g_{t+1}(v)
    -∂ log p_v(y_t) = f_t(v) g_t(v) / P(Y)       -∂ log E_uv = Σ_t f_t(u) E_uv p_v(y_{t+1}) g_{t+1}(v) / P(Y)
    """

    @staticmethod
    def forward(ctx: Any, said: Tensor, links: Tensor, tgt_lengths: Tensor, lengths: Tensor) -> Tensor:
        wide = torch.promote_types(said.dtype, torch.float32)
        steps, links_wide = said.to(wide).permute(2, 0, 1), links.to(wide)
        sums = [_at_start(links_wide)]
        for step in steps:
            sums.append(torch.logsumexp(sums[-1][:, :, None] + links_wide, dim=1) + step)
        forward, into_end = torch.stack(sums), _into_end(links_wide, lengths)
        rows = torch.arange(len(links), device=links.device)
        log_p = (forward[tgt_lengths, rows] + into_end).logsumexp(dim=1)
        ctx.save_for_backward(steps, links_wide, forward, into_end, log_p, tgt_lengths, lengths)
        ctx.dtypes = said.dtype, links.dtype
        return -log_p

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        steps, links, forward, into_end, log_p, tgt_lengths, lengths = ctx.saved_tensors
        possible = log_p.isfinite()
        log_p = torch.where(possible, log_p, 0.0)[:, None]
        never = torch.full_like(into_end, -torch.inf)
        passed, linked, rest = torch.zeros_like(steps), torch.zeros_like(links), never
        for time in range(len(steps), -1, -1):
            if time < len(steps):
                paths = links + (steps[time] + rest)[:, None, :]
                highest = paths.amax(dim=2).clamp(min=torch.finfo(paths.dtype).min)
                share = paths.sub_(highest[:, :, None]).exp_()
                total = share.sum(dim=2)
                rest = highest + total.log()
                gone = (forward[time] + rest - log_p).exp() / total.clamp(min=1)
                linked += share.mul_(gone[:, :, None])
            ends = (tgt_lengths == time)[:, None]
            rest = torch.where(ends, into_end, rest)
            visits = (forward[time] + rest - log_p).exp()
            linked.scatter_add_(2, _ends(lengths, links), torch.where(ends, visits, 0.0)[..., None])
            if time:
                passed[time - 1] = visits
        scale = torch.where(possible, -upstream.to(log_p), 0.0)[:, None, None]
        kinds = ctx.dtypes
        return (passed.permute(1, 2, 0) * scale).to(kinds[0]), (linked * scale).to(kinds[1]), None, None


def dag_alignment(said: TokenScores, links: LinkScores, tgt_lengths: Lengths, lengths: Lengths) -> Int[Tensor, "B U"]:
    """The vertices of the most probable path that emits each target; 0 after its end and where it does not fit."""
    score, came, scores = _at_start(links), [], []
    for step in said.permute(2, 0, 1):
        scores.append(score)
        best, source = (score[:, :, None] + links).max(dim=1)
        score = best + step
        came.append(source)
    rows = torch.arange(len(links), device=links.device)
    closed = torch.stack([*scores, score])[tgt_lengths, rows] + _into_end(links, lengths)
    highest, at = closed.max(dim=1)
    path = torch.zeros_like(said[:, 0], dtype=torch.long)
    for time in range(len(came), 0, -1):
        inside = (time <= tgt_lengths) & highest.isfinite()
        path[:, time - 1] = torch.where(inside, at, 0)
        at = torch.where(inside, came[time - 1].gather(1, at[:, None])[:, 0], at)
    return path


def _at_start(links: Tensor) -> Tensor:
    """[B, vertices]: log 1 at the first vertex."""
    score = torch.full_like(links[:, 0], -torch.inf)
    score[:, 0] = 0.0
    return score


def _ends(lengths: Tensor, links: Tensor) -> Tensor:
    """[B, vertices, 1]: the last vertex of each graph, for every vertex."""
    return (lengths - 1)[:, None, None].expand(-1, links.shape[1], 1)


def _into_end(links: Tensor, lengths: Tensor) -> Tensor:
    """[B, vertices]: the last step of a path."""
    return links.gather(2, _ends(lengths, links))[..., 0]

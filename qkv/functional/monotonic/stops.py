"""Monotonic attention: each output reads on from where the last one stopped (Raffel et al. 2017; Chiu and Raffel 2018).

    q_ij = (1 - p_i,j-1) q_i,j-1 + α_i-1,j        α_ij = p_ij q_ij        α_0 = (1, 0, ..., 0)

p_ij is the probability that output i stops at key j if it gets there; α_ij is the probability that it does stop there.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

Alignment = Float[Tensor, "... Q K"]
FirstStop = Float[Tensor, "... K"]
TINY = 1e-30
"""Stands for 0 where a logarithm is taken; no sum of probabilities notices it."""


def expected_alignment_by_recursion(p: Alignment, before: FirstStop | None = None) -> Alignment:
    """α, key by key as in the definition; `before` is α of the output before the first one."""
    *batch, length, keys = p.shape
    last = _start(p) if before is None else before
    rows = []
    for i in range(length):
        arrived = p.new_zeros(batch)
        row = []
        for j in range(keys):
            passed_by = (1 - p[..., i, j - 1]) * arrived if j else arrived
            arrived = passed_by + last[..., j]
            row.append(p[..., i, j] * arrived)
        last = torch.stack(row, dim=-1)
        rows.append(last)
    return torch.stack(rows, dim=-2)


def expected_alignment_by_cumprod(p: Alignment, clip: float = 1e-10) -> Alignment:
    """α_i = p_i ⊙ c_i ⊙ cumsum(α_i-1 / c_i) with c_ij = Π_l<j (1 - p_il), as in the paper.

    c underflows on long rows, so it is clipped before the division: see `expected_alignment`.
    """
    passed = (1 - p).cumprod(dim=-1).roll(1, dims=-1)
    passed = torch.cat([torch.ones_like(passed[..., :1]), passed[..., 1:]], dim=-1)
    last, rows = _start(p), []
    for stop, free in zip(p.unbind(-2), passed.unbind(-2), strict=True):
        last = stop * free * (last / free.clamp(clip, 1)).cumsum(dim=-1)
        rows.append(last)
    return torch.stack(rows, dim=-2)


def expected_alignment(energy: Alignment, allowed: Bool[Tensor, "... #Q K"] | None = None) -> Alignment:
    """α of p = sigmoid(energy), 0 where a key is not allowed: all keys of an output at once.

    The same product and sum as in `expected_alignment_by_cumprod`, but of logarithms, which do not underflow:

        log c_ij = Σ_l<j log(1 - p_il)        α_i = p_i ⊙ exp(log c_i + logcumsumexp(log α_i-1 - log c_i))
    """
    p, passed = energy.sigmoid(), F.logsigmoid(-energy)
    if allowed is not None:
        p, passed = p * allowed, passed * allowed
    free = F.pad(passed.cumsum(dim=-1)[..., :-1], (1, 0))
    last, rows = _start(p), []
    for stop, log_free in zip(p.unbind(-2), free.unbind(-2), strict=True):
        arrived = (last.clamp_min(TINY).log() - log_free).logcumsumexp(dim=-1) + log_free
        last = stop * arrived.exp()
        rows.append(last)
    return torch.stack(rows, dim=-2)


def hard_stops(stops: Bool[Tensor, "... Q K"], before: Int[Tensor, "..."] | None = None) -> Int[Tensor, "... Q"]:
    """The key at which each output stops: the first one with `stops` from the key of the output before it on.

    K if there is none; those that follow then find none either. `before` is the key of the output before the first one.
    """
    keys = stops.shape[-1]
    at = torch.arange(keys, device=stops.device)
    following = torch.where(stops, at, keys).flip(-1).cummin(dim=-1).values.flip(-1)
    following = F.pad(following, (0, 1), value=keys)
    last = following.new_zeros(stops.shape[:-2]) if before is None else before
    found = []
    for row in following.unbind(-2):
        last = row.gather(-1, last[..., None])[..., 0]
        found.append(last)
    return torch.stack(found, dim=-1)


def chunkwise(alignment: Alignment, scores: Alignment, width: int) -> Alignment:
    """β_ij = Σ_k=j..j+w-1 α_ik exp(u_ij) / Σ_l=k-w+1..k exp(u_il): soft attention to the w keys that end at the stop.

    MoChA (Chiu and Raffel 2018); α comes from monotonic attention, u = `scores` from any score. Keys of a window are
    compared with each other only, so each window is a softmax of its own.
    """
    padded = F.pad(scores, (width - 1, 0), value=torch.finfo(scores.dtype).min)
    windows = padded.unfold(-1, width, 1).softmax(dim=-1) * alignment[..., None]
    # Column k of `windows` belongs to the keys k - w + 1 ... k.
    spread = [F.pad(windows[..., place], (0, width - 1 - place))[..., width - 1 - place :] for place in range(width)]
    return torch.stack(spread).sum(dim=0)


def _start(p: Tensor) -> Tensor:
    """α_0: the first output begins at the first key."""
    first = torch.zeros_like(p[..., 0, :])
    first[..., 0] = 1
    return first

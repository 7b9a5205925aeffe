"""The log-probabilities of a few labels per row, without materialising those of the whole vocabulary.

The fast twin of `log_softmax(hidden Wᵀ).gather(1, labels)` and of `log_softmax(hidden Wᵀ) @ background`: the logits
exist for one chunk of rows at a time, and are recomputed in the backward pass.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from qkv.core.devices import autocast_to

CHUNK = 256
"""Rows whose logits are in memory at once."""


def label_log_probs(
    hidden: Float[Tensor, "N D"],
    weight: Float[Tensor, "V D"],
    labels: Int[Tensor, "N K"],
    background: Float[Tensor, " V"],
) -> tuple[Float[Tensor, "N K"], Float[Tensor, " N"]]:
    """log p_n(labels[n, k]) and Σ_v background_v log p_n(v), with p_n = softmax(W h_n)."""
    picked, smooth = _LabelLogProbs.apply(hidden, weight, labels, background)
    return picked, smooth


@torch.no_grad()
def label_logits(
    hidden: Float[Tensor, "N D"], weight: Float[Tensor, "V D"], labels: Int[Tensor, "N K"]
) -> tuple[Float[Tensor, "N K"], Float[Tensor, " N"]]:
    """The logits of the labels, and the highest logit of each row: a label that equals it is the argmax."""
    picked, highest = weight.new_empty(labels.shape), weight.new_empty(len(hidden))
    for own, z in _logits(hidden, weight):
        picked[own], highest[own] = z.gather(1, labels[own]), z.amax(dim=1)
    return picked, highest


@torch.no_grad()
def label_and_best_log_probs(
    hidden: Float[Tensor, "N D"], weight: Float[Tensor, "V D"], labels: Int[Tensor, "N K"]
) -> tuple[Float[Tensor, "N K"], Float[Tensor, " N"]]:
    """log p_n(labels[n, k]), and that of the most probable token: for paths that differ in the positions they take."""
    picked, best = weight.new_empty(labels.shape), weight.new_empty(len(hidden))
    for own, z in _logits(hidden, weight):
        log_z = z.logsumexp(dim=1)
        picked[own], best[own] = z.gather(1, labels[own]) - log_z[:, None], z.amax(dim=1) - log_z
    return picked, best


def _logits(hidden: Tensor, weight: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Rows and their logits, wide enough to be added up along a path, whatever the product is computed in."""
    for start in range(0, len(hidden), CHUNK):
        own = slice(start, start + CHUNK)
        yield own, (hidden[own] @ weight.t()).to(weight.dtype)


class _LabelLogProbs(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, labels: Tensor, background: Tensor) -> tuple[Tensor, Tensor]:
        with autocast_to(hidden.device, None):
            hidden, background = hidden.to(weight.dtype), background.to(weight)
            picked, log_z = weight.new_empty(labels.shape), weight.new_empty(len(hidden))
            buffer = weight.new_empty(min(CHUNK, len(hidden)), len(weight))
            for start in range(0, len(hidden), CHUNK):
                own = slice(start, start + CHUNK)
                z = torch.mm(hidden[own], weight.t(), out=buffer[: len(hidden[own])])
                picked[own] = z.gather(1, labels[own])
                highest = z.amax(dim=1)
                log_z[own] = highest + z.sub_(highest[:, None]).exp_().sum(dim=1).log_()
            ctx.save_for_backward(hidden, weight, labels, background, log_z)
            smooth = hidden @ (background @ weight) - background.sum() * log_z
            return picked.sub_(log_z[:, None]), smooth

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_picked: Tensor, d_smooth: Tensor) -> tuple[Tensor | None, ...]:
        """∂L/∂z = Σ_k g_k δ(label k) + s background - (Σ_k g_k + s Σ background) p"""
        hidden, weight, labels, background, log_z = ctx.saved_tensors
        with autocast_to(hidden.device, None):
            total = d_picked.sum(dim=1) + d_smooth * background.sum()
            d_hidden, d_weight = torch.empty_like(hidden), torch.zeros_like(weight)
            buffer = weight.new_empty(min(CHUNK, len(hidden)), len(weight))
            for start in range(0, len(hidden), CHUNK):
                own = slice(start, start + CHUNK)
                rows = hidden[own]
                d_z = torch.mm(rows, weight.t(), out=buffer[: len(rows)])
                d_z.sub_(log_z[own, None]).exp_().mul_(-total[own, None])
                d_z.scatter_add_(1, labels[own], d_picked[own])
                torch.mm(d_z, weight, out=d_hidden[own])
                d_weight.addmm_(d_z.t(), rows)
            # The background is the same in every row, so its share is one product for all of them.
            d_hidden.addr_(d_smooth, background @ weight)
            d_weight.addr_(background, d_smooth @ hidden)
        return d_hidden, d_weight, None, None


class BestLabel(NamedTuple):
    """Of each row."""

    labels: Int[Tensor, " N"]
    log_probs: Float[Tensor, " N"]
    """log p of the label."""
    asked: Float[Tensor, " N"] | None
    """log p of the requested label, if any."""


def best_label(logits: Float[Tensor, "N V"], ask: int | None = None) -> BestLabel:
    """log p(v) = z_v - z_best - log Σ_u exp(z_u - z_best); ties go to the lowest label. Overwrites `logits`."""
    labels = _first_best(logits)
    highest = logits.gather(1, labels[:, None])
    asked = None if ask is None else logits[:, ask] - highest[:, 0]
    rest = logits.sub_(highest).exp_().sum(dim=1).log_()
    return BestLabel(labels, -rest, None if asked is None else asked - rest)


def _first_best(logits: Tensor) -> Tensor:
    """The lowest of the best labels of each row."""
    if logits.device.type == "cpu":
        # numpy's argmax is vectorised and takes the first maximum; torch's does neither.
        return torch.from_numpy(logits.numpy().argmax(axis=1))
    numbers = torch.arange(logits.shape[1], device=logits.device)
    is_best = (logits == logits.amax(dim=1, keepdim=True)) | logits.isnan()
    return torch.where(is_best, numbers, logits.shape[1] - 1).amin(dim=1)

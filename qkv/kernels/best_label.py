"""The most probable label of each row, without the log-probabilities of all the others.

The fast twin of `log_softmax(logits).max(dim=1)`: one pass finds the highest logit, and one sums the exponentials in
the memory of the logits themselves.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor


class BestLabel(NamedTuple):
    """Of each row."""

    labels: Int[Tensor, " N"]
    log_probs: Float[Tensor, " N"]
    """log p of the label."""
    asked: Float[Tensor, " N"] | None
    """log p of the label that was asked about, if any."""


def best_label(logits: Float[Tensor, "N V"], ask: int | None = None) -> BestLabel:
    """log p(v) = z_v - z_best - log Σ_u exp(z_u - z_best); of equals the lowest label. Overwrites `logits`."""
    # numpy's argmax is vectorised and takes the first of equals; torch's is neither.
    labels = torch.from_numpy(logits.cpu().numpy().argmax(axis=1)).to(logits.device)
    highest = logits.gather(1, labels[:, None])
    asked = None if ask is None else logits[:, ask] - highest[:, 0]
    rest = logits.sub_(highest).exp_().sum(dim=1).log_()
    return BestLabel(labels, -rest, None if asked is None else asked - rest)

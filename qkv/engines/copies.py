"""Which tokens of an output were copied, and from where: read off one more pass over the finished outputs."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from qkv.data.batch import Batch, collate
from qkv.models.base import Model
from qkv.models.heads.copying import CopyHead
from qkv.search.hypothesis import Copied, Hypothesis
from qkv.text.special import SPECIAL


@torch.no_grad()
def with_copies(
    models: Sequence[Model], sources: Sequence[list[int]], found: list[list[Hypothesis]]
) -> list[list[Hypothesis]]:
    """The hypotheses of each source, with `Hypothesis.copied`. Sources end with END."""
    rows = [(source, one) for source, own in zip(sources, found, strict=True) for one in own]
    if not rows:
        return found
    src_ids, tgt_ids = [source[:-1] for source, _ in rows], [one.tokens for _, one in rows]
    batch = collate(src_ids, tgt_ids, SPECIAL, SPECIAL, range(len(rows))).to(models[0].device)
    shares = torch.stack([_joint(model, batch) for model in models]).mean(dim=0)
    shares = shares / torch.stack([_probabilities(model, batch) for model in models]).mean(dim=0)[..., None]
    marked = iter(replace(one, copied=_copied(shares[row], len(one.tokens))) for row, (_, one) in enumerate(rows))
    return [[next(marked) for _ in own] for own in found]


def _copied(shares: Tensor, tokens: int) -> list[Copied | None]:
    """Of each token [T, S]: a copy if that is more probable than that it was generated."""
    best = [(float(row.sum()), int(row.argmax())) for row in shares[:tokens]]
    return [Copied(place, min(share, 1.0)) if share > 0.5 else None for share, place in best]


def _joint(model: Model, batch: Batch) -> Tensor:
    """p(y_t, copied from position s) of each token [B, T, S]; 0 where position s holds another token."""
    head = model.head
    assert isinstance(head, CopyHead)
    log_probs = head.copy_log_probs(*model(batch))
    return log_probs.exp() * (batch.src[:, None] == batch.tgt_out[..., None])


def _probabilities(model: Model, batch: Batch) -> Tensor:
    """p(y_t) [B, T]"""
    log_probs = model.head.log_probs(*model(batch))
    return log_probs.gather(2, batch.tgt_out[..., None])[..., 0].exp()

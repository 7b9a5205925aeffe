"""The targets of a batch as a non-autoregressive model learns them: without END."""

import torch
from torch import Tensor

from qkv.data.batch import Batch


def without_end(batch: Batch, pad: int) -> tuple[Tensor, Tensor]:
    """Targets [B, U] and their lengths [B]; END, which stands last in each row, becomes padding. U is 1 at least."""
    lengths = (batch.tgt_weight > 0).sum(dim=1) - 1
    targets = batch.tgt_out[:, : max(1, batch.tgt_out.shape[1] - 1)]
    inside = torch.arange(targets.shape[1], device=targets.device) < lengths[:, None]
    return targets.masked_fill(~inside, pad), lengths

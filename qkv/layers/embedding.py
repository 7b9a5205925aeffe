"""Token ids to vectors."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F


class TokenEmbedding(nn.Module):
    """E[id] * sqrt(d_model), as in section 3.4 of the paper.

    Rows are initialised from N(0, 1 / d_model), so that the scaled vectors have unit variance. The row of the
    padding is initialised to zero and gets no gradient here.
    """

    def __init__(self, vocab_size: int, d_model: int, pad: int) -> None:
        super().__init__()
        self.pad = pad
        self.scale = math.sqrt(d_model)
        self.weight = nn.Parameter(torch.empty(vocab_size, d_model))
        self._more: Tensor | None = None
        self.reset_parameters()

    def reset_parameters(self, std: float = 1.0) -> None:
        """Scaled vectors from N(0, std²), and zeros for the padding."""
        nn.init.normal_(self.weight, std=std / self.scale)
        with torch.no_grad():
            self.weight[self.pad].zero_()

    def forward(self, ids: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        weight: Tensor = self.weight
        if self._more is not None:
            ids = torch.where(ids < 0, len(weight) - 1 - ids, ids)
            weight = torch.cat([weight, self._more])
        return F.embedding(ids, weight, padding_idx=self.pad) * self.scale

    @contextmanager
    def more_tokens(self, vectors: Float[Tensor, "N D"]) -> Iterator[None]:
        """Inside, negative ids are tokens too: -1 has the embedding vectors[0], -2 has vectors[1], and so on."""
        self._more = vectors
        try:
            yield
        finally:
            self._more = None

    def for_inference(self) -> Callable[[Tensor], Tensor]:
        """`forward`, its weight bound as a plain tensor."""
        weight, scale = self.weight, self.scale
        return lambda ids: F.embedding(ids, weight) * scale


class PlainEmbedding(TokenEmbedding):
    """E[id], not scaled, with rows from N(0, std²)."""

    def __init__(self, vocab_size: int, d_model: int, pad: int, std: float = 0.02) -> None:
        super().__init__(vocab_size, d_model, pad)
        self.scale = 1.0
        nn.init.normal_(self.weight, std=std)


class OpenEmbedding(TokenEmbedding):
    """An embedding for a model that copies: ids beyond the vocabulary, which stand for words of the source that are
    not in it, read as unk."""

    def __init__(self, vocab_size: int, d_model: int, pad: int, unk: int) -> None:
        super().__init__(vocab_size, d_model, pad)
        self.unk = unk

    def forward(self, ids: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        return super().forward(self._known(ids))

    def for_inference(self) -> Callable[[Tensor], Tensor]:
        embed = super().for_inference()
        return lambda ids: embed(self._known(ids))

    def _known(self, ids: Tensor) -> Tensor:
        return ids.masked_fill(ids >= len(self.weight), self.unk)

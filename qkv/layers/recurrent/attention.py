"""Additive attention of a recurrent decoder, and the registry of its kinds."""

from typing import Literal

from torch import Tensor, nn

from qkv.config.base import Config, Kinds
from qkv.core.shapes import SrcKeep
from qkv.functional.attention import masked_softmax
from qkv.layers.attention.recording import NOWHERE, report
from qkv.layers.attention.scores import Additive


class RecurrentAttentionConfig(Config):
    """The attention of a recurrent decoder."""

    kind: str

    def build(self, d_model: int) -> "AdditiveAttention":
        raise NotImplementedError


recurrent_attentions = Kinds[RecurrentAttentionConfig]("recurrent attention")


@recurrent_attentions.register
class AdditiveAttentionConfig(RecurrentAttentionConfig):
    """By content (Bahdanau et al. 2015)."""

    kind: Literal["additive"] = "additive"

    def build(self, d_model: int) -> "AdditiveAttention":
        return AdditiveAttention(d_model)


class AdditiveAttention(nn.Module):
    """a_j = softmax_j v·tanh(W q + U k_j); context = Σ_j a_j k_j (Bahdanau et al. 2015)."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.attention_id = NOWHERE
        """Its place in the model; `capture_attention` records by it."""
        self.query = nn.Linear(d_model, d_model, bias=False)
        self.key = nn.Linear(d_model, d_model)
        self.score = Additive(1, d_model)

    def first(self, rows: int, memory: Tensor) -> Tensor:
        """[R, S], what the first step is given: all weight on the first token."""
        weights = memory.new_zeros(rows, memory.shape[1])
        weights[:, 0] = 1
        return weights

    def carry(self, before: Tensor, weights: Tensor) -> Tensor:
        """[R, S], what a step hands to the next, of what it was given and its weights: the weights."""
        return weights

    def forward(self, q: Tensor, keys: Tensor, memory: Tensor, keep: SrcKeep, before: Tensor) -> tuple[Tensor, Tensor]:
        """Queries [R, D] to contexts [R, D] and weights [R, S]; `before` [R, S] is what the step before handed on.

        `keys` [B, S, D] are `self.key(memory)`, computed once. Rows of one sentence follow each other, R / B of them.
        """
        weights = self.weights(self.query(q), keys, keep, before)
        report(self.attention_id, lambda: weights)
        context = weights[:, 0] @ memory
        return context.flatten(0, 1), weights.flatten(0, 2)

    def weights(self, q: Tensor, keys: Tensor, keep: SrcKeep, before: Tensor) -> Tensor:
        """[B, 1, R / B, S] of projected queries [R, D]."""
        queries = q.view(len(keys), 1, -1, q.shape[-1])
        return masked_softmax(self.score(queries, keys[:, None]), keep[:, None, None])

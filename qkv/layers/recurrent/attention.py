"""Attention of a recurrent decoder by content, with any score, or none; and the registry of its kinds."""

from typing import Literal

import torch
from torch import Tensor, nn

from qkv.config.base import Config, Kinds
from qkv.core.shapes import SrcKeep
from qkv.functional.attention import masked_softmax
from qkv.layers.attention.recording import NOWHERE, report
from qkv.layers.attention.scores import Additive, AdditiveConfig, AnyScore, AttentionScore


class RecurrentAttentionConfig(Config):
    """The attention of a recurrent decoder."""

    kind: str

    def build(self, d_model: int) -> "RecurrentAttention | None":
        """None: the decoder does not attend."""
        raise NotImplementedError


recurrent_attentions = Kinds[RecurrentAttentionConfig]("recurrent attention")


@recurrent_attentions.register
class NoAttentionConfig(RecurrentAttentionConfig):
    """None: all that the decoder knows of the source is its first state (Sutskever et al. 2014)."""

    kind: Literal["none"] = "none"

    def build(self, d_model: int) -> None:
        return None


@recurrent_attentions.register
class ContentAttentionConfig(RecurrentAttentionConfig):
    """By content, with any score: `dot` and `general` are those of Luong et al. (2015)."""

    kind: Literal["content"] = "content"
    score: AnyScore = AdditiveConfig()
    """The score of a query and a key."""
    project: bool = False
    """Map queries and keys linearly before they are scored, as the Transformer does."""

    def build(self, d_model: int) -> "RecurrentAttention":
        return RecurrentAttention(d_model, self.score.build(1, d_model), self.project)


class RecurrentAttention(nn.Module):
    """a_j = softmax_j score(q, k_j); context = Σ_j a_j h_j.

    The query q is the decoder's state s, the key k_j the encoder's state h_j; with `project`, W s and U h_j + b.
    """

    def __init__(self, d_model: int, score: AttentionScore, project: bool) -> None:
        super().__init__()
        self.attention_id = NOWHERE
        """Its place in the model; `capture_attention` records by it."""
        self.query = nn.Linear(d_model, d_model, bias=False) if project else nn.Identity()
        self.key = nn.Linear(d_model, d_model) if project else nn.Identity()
        self.score = score

    def keys(self, memory: Tensor) -> Tensor:
        """What `forward` scores of the encoder's states [B, S, D], computed once for a source."""
        return self.score.keys(self.key(memory)[:, None])[:, 0]

    def first(self, rows: int, memory: Tensor) -> Tensor:
        """[R, S], what the first step is given: all weight on the first token."""
        weights = memory.new_zeros(rows, memory.shape[1])
        weights[:, 0] = 1
        return weights

    def carry(self, before: Tensor, weights: Tensor) -> Tensor:
        """[R, S], what a step hands to the next, of what it was given and its weights: the weights."""
        return weights

    def forward(
        self, q: Tensor, keys: Tensor, memory: Tensor, keep: SrcKeep, before: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Queries [R, W, D] to contexts [R, W, D], weights [R, W, S], and what the last step hands on, [R, S].

        `before` [R, S] is what the step before handed on, `keys` are `self.keys(memory)`. Rows of one sentence follow
        each other, R / B of them.
        """
        weights, carried = self.weights(self.query(q), keys, keep, before)
        by_sentence = weights.view(len(keys), 1, -1, keys.shape[1])
        report(self.attention_id, lambda: by_sentence)
        return (by_sentence[:, 0].to(memory.dtype) @ memory).view(q.shape), weights, carried

    def weights(self, q: Tensor, keys: Tensor, keep: SrcKeep, before: Tensor) -> tuple[Tensor, Tensor]:
        """[R, W, S] of projected queries [R, W, D], and what is handed on: all steps at once."""
        queries = self.score.queries(q.view(len(keys), 1, -1, q.shape[-1]))
        weights = masked_softmax(self.score(queries, keys[:, None]), keep[:, None, None]).view(*q.shape[:2], -1)
        return weights, self.carry(before, weights[:, -1])


@recurrent_attentions.register
class AdditiveAttentionConfig(RecurrentAttentionConfig):
    """By content, v·tanh(W q + U k) (Bahdanau et al. 2015)."""

    kind: Literal["additive"] = "additive"

    def build(self, d_model: int) -> "AdditiveAttention":
        return AdditiveAttention(d_model)


class AdditiveAttention(RecurrentAttention):
    """a_j = softmax_j v·tanh(W q + U k_j); context = Σ_j a_j k_j (Bahdanau et al. 2015)."""

    score: Additive

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model, Additive(1, d_model), project=True)


class FollowingAttention(AdditiveAttention):
    """Base class of attention that also reads what the step before handed on: one step after the other."""

    def weights(self, q: Tensor, keys: Tensor, keep: SrcKeep, before: Tensor) -> tuple[Tensor, Tensor]:
        hypotheses, rows = len(q) // len(keys), []
        keys, keep = (part.repeat_interleave(hypotheses, 0)[:, None] for part in (keys, keep))
        for query in q.unbind(1):
            rows.append(self.next(query[:, None], keys, keep, before[:, None])[:, 0])
            before = self.carry(before, rows[-1])
        return torch.stack(rows, dim=1), before

    def next(self, query: Tensor, keys: Tensor, keep: Tensor, before: Tensor) -> Tensor:
        """Weights [R, 1, S] of the next queries [R, 1, D], for keys [R, 1, S, D]; keep and before are [R, 1, S]."""
        raise NotImplementedError

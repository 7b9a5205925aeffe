"""Consistency training: a second pass over the same pairs should agree with the first."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from qkv.config.base import Config, Kinds
from qkv.data.batch import Batch
from qkv.functional.losses import AgreementFactors, Smoothing, r_drop, sim_cut
from qkv.functional.noise import choose
from qkv.layers.embedding import TokenEmbedding
from qkv.models.base import Model, Output
from qkv.models.heads.base import HeadContext
from qkv.objectives.base import LossReport
from qkv.text.special import SPECIAL, SpecialIds


class Consistency:
    """Two passes over the same pairs, and a loss on their disagreement.

    Args:
        agreement: The factors of the loss.
        special: Ids of the special tokens.
    """

    def __init__(self, agreement: AgreementFactors, special: SpecialIds = SPECIAL) -> None:
        self.agreement = agreement
        self.special = special

    def decode(self, model: Model, batch: Batch, tgt_in: Tensor) -> Output:
        """What the head reads of both passes [2 B, T, ...], from one forward of a batch twice as large."""
        raise NotImplementedError

    def loss(self, model: Model, batch: Batch, tgt_in: Tensor, smoothing: Smoothing) -> LossReport:
        """The likelihood in the report is that of the first pass."""
        states, context = self.decode(model, batch, tgt_in)
        counts = batch.counted
        weights, targets = batch.tgt_weight[counts], batch.tgt_out[counts]

        def paired(x: Tensor) -> Tensor:
            both: Tensor = x.unflatten(0, (2, len(tgt_in)))
            return both[:, *counts].transpose(0, 1)

        contexts = HeadContext(*(None if part is None else paired(part) for part in context))
        loss, nll = model.head.consistent_loss(paired(states), contexts, targets, weights, smoothing, self.agreement)
        return LossReport(loss, nll, weights.sum())


class ConsistencyConfig(Config):
    """Two passes, and a loss on their disagreement."""

    def build(self, special: SpecialIds) -> Consistency:
        raise NotImplementedError


consistencies = Kinds[ConsistencyConfig]("consistency")
AnyConsistency = Annotated[ConsistencyConfig, consistencies]


@consistencies.register
class RDropConfig(ConsistencyConfig):
    """R-Drop (Liang 2021): both passes read the same and differ in their dropout; both learn from the target."""

    kind: Literal["rdrop"] = "rdrop"
    weight: float = Field(default=5.0, ge=0)
    """The paper's alpha: how much the mean of the two divergences counts beside the sum of the two cross-entropies."""

    def build(self, special: SpecialIds) -> "RDrop":
        return RDrop(r_drop(self.weight), special)


class RDrop(Consistency):
    """R-Drop: both passes read the same."""

    def decode(self, model: Model, batch: Batch, tgt_in: Tensor) -> Output:
        return _decode_both(model, batch, (batch.src, batch.src), (tgt_in, tgt_in))


@consistencies.register
class SimCutConfig(ConsistencyConfig):
    """SimCut (Gao 2022): the second pass reads neither some source tokens nor some target tokens."""

    kind: Literal["simcut"] = "simcut"
    weight: float = Field(default=3.0, ge=0)
    """The paper's alpha: how much the divergence counts beside the cross-entropy."""
    rate: float = Field(default=0.05, ge=0, le=1)
    """Share of the tokens of both sides whose embedding becomes zero; never that of the start or end symbol."""
    fixed: bool = False
    """True: the divergence moves only the second pass towards the first; as published it moves both."""

    def build(self, special: SpecialIds) -> "SimCut":
        return SimCut(sim_cut(self.weight, self.fixed), self.rate, special)


class SimCut(Consistency):
    """SimCut: in the second pass, the embeddings of a share `rate` of the tokens of both sides are zero."""

    def __init__(self, agreement: AgreementFactors, rate: float = 0.05, special: SpecialIds = SPECIAL) -> None:
        super().__init__(agreement, special)
        self.rate = rate

    def decode(self, model: Model, batch: Batch, tgt_in: Tensor) -> Output:
        src_cut, tgt_cut = (self._cut(ids) for ids in (batch.src, tgt_in))
        with _padding_reads_as_zero(model):
            return _decode_both(model, batch, (batch.src, src_cut), (tgt_in, tgt_cut))

    def _cut(self, ids: Tensor) -> Tensor:
        """Padding in the place of the tokens that are not read; masks do not change, so positions stay."""
        special = self.special
        eligible = (ids != special.pad) & (ids != special.bos) & (ids != special.eos)
        return ids.masked_fill(choose(eligible, self.rate), special.pad)


def _decode_both(model: Model, batch: Batch, src: tuple[Tensor, Tensor], tgt_in: tuple[Tensor, Tensor]) -> Output:
    twice = replace(batch, src=torch.cat(src), src_keep=batch.src_keep.repeat(2, 1), tgt_in=torch.cat(tgt_in))
    output: Output = model(twice)
    return output


@contextmanager
def _padding_reads_as_zero(model: Model) -> Iterator[None]:
    """Inside, padding embeds as exact zeros; its row alone is not zero where the output head trains it too."""
    embeddings = {module for module in model.modules() if isinstance(module, TokenEmbedding)}
    hooks = [embedding.register_forward_hook(_without_padding) for embedding in embeddings]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _without_padding(embedding: TokenEmbedding, inputs: tuple[Tensor], output: Tensor) -> Tensor:
    return output * (inputs[0] != embedding.pad)[..., None]

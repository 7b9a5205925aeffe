"""A decoder with its objective and its reader: all tokens at once, a position of the canvas for each source token."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from qkv.data.batch import Batch
from qkv.functional.losses import Smoothing
from qkv.functional.parallel.glancing import uniform_copy
from qkv.models.base import Model
from qkv.models.decoders.base import DecoderConfig, decoders
from qkv.models.heads import NO_CONTEXT
from qkv.models.parallel.base import CopiedSource, EncodedSource, StretchedModel, open_canvas
from qkv.models.transformer.model import Transformer, TransformerParts
from qkv.objectives.base import LossReport
from qkv.objectives.parts import ObjectiveParts, objectives
from qkv.search.base import LengthLimits
from qkv.search.hypothesis import Hypothesis
from qkv.search.refinement.base import Reader, ReaderConfig, Wanted, cut, readers
from qkv.search.refinement.canvas import Pass
from qkv.text.special import NEVER_OUTPUT, SPECIAL


@decoders.register
class SameLengthConfig(DecoderConfig):
    """Token t of the output from token t of the source; what is left of the canvas says END."""

    kind: Literal["same_length"] = "same_length"

    def build(self, parts: TransformerParts) -> Transformer:
        return SameLengthModel(parts, CopiedSource(uniform_copy, with_end=True), factor=1.0)


class SameLengthModel(StretchedModel):
    kind = "same_length"


class SameLengthLoss:
    """Cross-entropy of every position of the canvas: the target, then END."""

    def __init__(self, decoder: SameLengthConfig, parts: ObjectiveParts) -> None:
        self.parts = parts

    def training_loss(self, model: Model, batch: Batch, update: int) -> LossReport:
        return self._loss(model, batch, self.parts.smoothing)

    def validation_loss(self, model: Model, batch: Batch) -> LossReport:
        return self._loss(model, batch, self.parts.plain)

    def _loss(self, model: Model, batch: Batch, smoothing: Smoothing) -> LossReport:
        assert isinstance(model, SameLengthModel)
        source = model.read(batch.src, batch.src_keep)
        canvas = open_canvas(model.canvas_lengths(source.lengths))
        labels = torch.full_like(canvas, SPECIAL.eos)
        shared = min(canvas.shape[1], batch.tgt_out.shape[1])
        real = batch.tgt_weight[:, :shared] > 0
        labels[:, :shared] = torch.where(real, batch.tgt_out[:, :shared], SPECIAL.eos)
        fits = (batch.tgt_weight > 0).sum(dim=1) <= source.lengths
        counts = (canvas != SPECIAL.pad) & fits[:, None]
        states = model.fill(canvas, source)[counts]
        ones = torch.ones(len(states), device=states.device)
        loss, nll = model.head.loss(states, NO_CONTEXT, labels[counts], ones, smoothing)
        return LossReport(loss, nll, float(len(states)), left_out=(~fits).sum())


objectives.register("same_length", SameLengthLoss)


@readers.register
class SameLengthReaderConfig(ReaderConfig):
    """For the decoder same_length: the tokens before the first END."""

    kind: Literal["same_length"] = "same_length"

    def build(self, model: SameLengthModel, wanted: Wanted) -> "SameLengthReader":
        return SameLengthReader(model)

    def read_tokens(self, tokens: list[int], scores: list[float], limits: LengthLimits, last_id: int) -> Hypothesis:
        length = tokens.index(SPECIAL.eos) if SPECIAL.eos in tokens else len(tokens)
        score = sum(scores) / max(1, len(scores))
        return cut(tokens[:length], scores[:length], score, limits)


class SameLengthReader(Reader):
    never = NEVER_OUTPUT

    def __init__(self, model: SameLengthModel) -> None:
        self.model = model

    def lengths(self, source: EncodedSource, limits: Sequence[LengthLimits]) -> Tensor:
        return self.model.canvas_lengths(source.lengths)[:, None]

    def read(self, filled: Pass, row: int, length: int, limits: LengthLimits) -> list[Hypothesis]:
        tokens, scores = filled.tokens[row, :length].tolist(), filled.scores[row, :length].tolist()
        return [SameLengthReaderConfig().read_tokens(tokens, scores, limits, last_id=0)]

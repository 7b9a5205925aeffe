"""Texts to vectors: the states of an encoder, of each token or one for a text."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from qkv.core.devices import moved
from qkv.core.errors import UsageError
from qkv.data.batch import padded
from qkv.data.tasks.labelled import text_rows
from qkv.models.base import Model
from qkv.models.language.masked import TextModel
from qkv.models.saved.folder import SavedModel, load_model
from qkv.models.transformer.model import Transformer

Pooling = Literal["mean", "first", "tokens"]


class EncodedText(NamedTuple):
    """The tokens of a text as the encoder reads them, and their states [S, D]."""

    tokens: list[str]
    states: Tensor
    cut: bool
    """The text had more tokens than the model has positions."""

    def pooled(self, pooling: Pooling = "mean", normalize: bool = False) -> Tensor:
        """[1, D]: the mean of the states, or the first one; of `tokens` [S, D]: all. With `normalize`, of length 1."""
        states = self.states
        if pooling != "tokens":
            states = states.mean(dim=0, keepdim=True) if pooling == "mean" else states[:1]
        return F.normalize(states, dim=1) if normalize else states


class TextVectors:
    """Vectors of texts by the encoder of a masked_lm, a classifier, a tagger or a Transformer.

    Args:
        model: The folder of a model or of a run, or the model as `load_model` gives it.
    """

    def __init__(self, model: Path | str | SavedModel) -> None:
        self.saved = model if isinstance(model, SavedModel) else load_model(model)
        if not isinstance(self.saved.model, TextModel | Transformer):
            config = self.saved.config.model
            where = "this" if isinstance(model, SavedModel) else model
            raise UsageError(
                f"{where}: a model of the kind {config.kind} has no encoder of texts whose states could be taken; "
                f"{config.answered_by}"
            )
        self.model: Model = self.saved.model.eval()

    @torch.no_grad()
    def encode(self, texts: Sequence[str]) -> list[EncodedText]:
        """The states of all tokens of each text, the special ones included."""
        tokenizer, limit = self.saved.tokenizers.src, self.model.limits.src
        ids = tokenizer.encode_batch(list(texts))
        if isinstance(self.model, TextModel):
            room = None if limit is None else limit - 2
            batch = text_rows([own[:room] for own in ids], tokenizer, list(range(len(ids)))).to(self.model.device)
            src, keep, states = batch.src, batch.src_keep, self.model.encoder(batch.src, batch.src_keep)
        else:
            assert isinstance(self.model, Transformer)
            room = None if limit is None else limit - 1
            src, keep = padded([[*own[:room], tokenizer.special.eos] for own in ids], tokenizer.special.pad)
            src, keep = moved(src, self.model.device), moved(keep, self.model.device)
            states = self.model.encode(src, keep)
        return [
            EncodedText(tokenizer.tokens(row[real].tolist()), own[real].cpu(), room is not None and len(whole) > room)
            for row, real, own, whole in zip(src, keep, states, ids, strict=True)
        ]

    def sentences(self, texts: Sequence[str], pooling: Pooling = "mean", normalize: bool = False) -> Tensor:
        """[N, D]: the mean of the states of a text, or its first one; with `normalize`, of length 1."""
        return torch.cat([each.pooled(pooling, normalize) for each in self.encode(texts)])

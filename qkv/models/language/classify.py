"""`model.kind: classifier` and `tagger`: labels of texts and of words, on the encoder of BERT."""

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from pydantic import model_validator
from torch import nn

from qkv.data.batch import Batch
from qkv.layers.attention.recording import name_attentions
from qkv.layers.dropout import Dropout
from qkv.models.base import Output
from qkv.models.config import models
from qkv.models.heads.linear import BiasedHead
from qkv.models.language.config import STD
from qkv.models.language.encoder import TextEncoder, TextEncoderConfig
from qkv.models.language.masked import TextModel
from qkv.text import TokenizerPair


def _label_head(labels: int, width: int) -> BiasedHead:
    weight = nn.Parameter(torch.empty(labels, width).normal_(std=STD))
    return BiasedHead(weight, nn.Parameter(torch.zeros(labels)))


class LabellingConfig(TextEncoderConfig):
    """Base class of models that name labels."""

    asked: ClassVar[str] = "label"
    answered_by: ClassVar[str] = "qkv label MODEL writes the labels of texts or of their words"


@models.register
class ClassifierConfig(LabellingConfig):
    """One label for a text, from the state of its first position."""

    learns: ClassVar[Mapping[str, str]] = {"labelled": "text_labels"}

    kind: Literal["classifier"] = "classifier"

    def build(self, tokenizers: TokenizerPair) -> "Classifier":
        return Classifier(self.build_encoder(tokenizers), len(tokenizers.tgt), self.dropout)


@models.register
class TaggerConfig(LabellingConfig):
    """A label for each word, from the state of its first token."""

    learns: ClassVar[Mapping[str, str]] = {"tagged": "text_labels"}

    kind: Literal["tagger"] = "tagger"

    @model_validator(mode="after")
    def _one_segment(self) -> "TaggerConfig":
        if self.separator is not None:
            raise ValueError("separator: every word of a tagged text has a tag, also a separator; leave it out")
        return self

    def build(self, tokenizers: TokenizerPair) -> "Tagger":
        return Tagger(self.build_encoder(tokenizers), len(tokenizers.tgt), self.dropout)


class Classifier(TextModel):
    """softmax(W tanh(P h_0 + p) + b) with h_0 the state of <s>."""

    kind = "classifier"
    starts_from = ("masked_lm",)

    def __init__(self, encoder: TextEncoder, labels: int, dropout: float) -> None:
        super().__init__()
        width = encoder.tokens.weight.shape[1]
        self.encoder = encoder
        self.pooler = nn.Linear(width, width)
        nn.init.normal_(self.pooler.weight, std=STD)
        nn.init.zeros_(self.pooler.bias)
        self.dropout = Dropout(dropout)
        self.head = _label_head(labels, width)
        name_attentions(self)

    def forward(self, batch: Batch) -> Output:
        """[B, 1, D]: one position, which has the label."""
        first = self.encoder(batch.src, batch.src_keep)[:, :1]
        return Output(self.dropout(torch.tanh(self.pooler(first))))


class Tagger(TextModel):
    """softmax(W h_t + b) for the first token t of each word."""

    kind = "tagger"
    starts_from = ("masked_lm",)

    def __init__(self, encoder: TextEncoder, labels: int, dropout: float) -> None:
        super().__init__()
        self.encoder = encoder
        self.dropout = Dropout(dropout)
        self.head = _label_head(labels, encoder.tokens.weight.shape[1])
        name_attentions(self)

    def forward(self, batch: Batch) -> Output:
        return Output(self.dropout(self.encoder(batch.src, batch.src_keep)))

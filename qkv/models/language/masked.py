"""`model.kind: masked_lm`: the encoder of BERT with a head that predicts masked tokens."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from qkv.data.batch import Batch
from qkv.data.store import PairStore
from qkv.data.tasks.text_store import TextStore
from qkv.layers.attention.recording import name_attentions
from qkv.models.base import Inference, MaxLengths, Model, Output
from qkv.models.config import models
from qkv.models.heads.linear import BiasedHead
from qkv.models.language.config import STD
from qkv.models.language.encoder import TextEncoder, TextEncoderConfig
from qkv.text import TokenizerPair


@models.register
class MaskedLMConfig(TextEncoderConfig):
    """The encoder of BERT: masked tokens are predicted from both sides; one matrix for input and output."""

    learns: ClassVar[Mapping[str, str]] = {"texts": "masked_tokens", "pairs": "masked_tokens_of_pairs"}
    asked: ClassVar[str] = "embed"
    answered_by: ClassVar[str] = "qkv embed MODEL writes its vectors"

    kind: Literal["masked_lm"] = "masked_lm"

    def build(self, tokenizers: TokenizerPair) -> "MaskedLM":
        model = MaskedLM(self.build_encoder(tokenizers))
        model.norm.eps = self.norm_eps
        return model

    def data_problem(self, longest_src: int, longest_tgt: int, shared_tokenizer: bool) -> str | None:
        if not shared_tokenizer:
            return "model.kind masked_lm reads both texts of a pair with one tokenizer: give text.shared"
        return super().data_problem(longest_src, longest_tgt, shared_tokenizer)

    def misfit(self, train: Any, dev: Any) -> str | None:
        limit = self.positions.limit
        if not isinstance(train, PairStore) or isinstance(train, TextStore) or limit is None:
            return None
        longest = 1 + int((train.src_len.astype(np.int64) + train.tgt_len).max())
        if longest <= limit:
            return None
        return f"model.positions.max_length ({limit}) is below {longest}, the most tokens of both texts; raise it"


class TextModel(Model):
    """A model on a text encoder; without steps, since it writes nothing."""

    encoder: TextEncoder

    @property
    def limits(self) -> MaxLengths:
        return MaxLengths(self.encoder.positions.max_length, None)

    def inference(self) -> Inference:
        return Inference(reason=f"a model of the kind {self.kind} writes no text")


class MaskedLM(TextModel):
    """softmax(E LN(GELU(W h + b)) + b'), with the embedding E."""

    kind = "masked_lm"

    def __init__(self, encoder: TextEncoder) -> None:
        super().__init__()
        vocab_size, width = encoder.tokens.weight.shape
        self.encoder = encoder
        self.transform = nn.Linear(width, width)
        nn.init.normal_(self.transform.weight, std=STD)
        nn.init.zeros_(self.transform.bias)
        self.norm = nn.LayerNorm(width)
        self.head = BiasedHead(encoder.tokens.weight, nn.Parameter(torch.zeros(vocab_size)))
        name_attentions(self)

    def forward(self, batch: Batch) -> Output:
        """The states of all positions of `src`."""
        states = self.encoder(batch.src, batch.src_keep)
        return Output(self.norm(F.gelu(self.transform(states))))

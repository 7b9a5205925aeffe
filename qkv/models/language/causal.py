"""`model.kind: causal_lm`: the decoder without cross-attention, as in GPT (Radford et al. 2019)."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

import torch
from pydantic import model_validator
from torch import Tensor, nn

from qkv.data.batch import Batch
from qkv.data.tasks.text_batch import TextBatch
from qkv.functional.masks import both, causal, same_segment
from qkv.layers.attention import FullConfig
from qkv.layers.attention.context import AttentionContext
from qkv.layers.attention.recording import name_attentions
from qkv.layers.embedding import PlainEmbedding, TokenEmbedding
from qkv.layers.positions.learned import Learned
from qkv.models.base import Inference, MaxLengths, Model, Output
from qkv.models.config import models
from qkv.models.heads.linear import LinearHead, PartialHead
from qkv.models.language.config import STD, OneStackConfig, initialise
from qkv.models.transformer.encoder import Encoder
from qkv.models.transformer.model import Embedder
from qkv.text import TokenizerPair


@models.register
class CausalLMConfig(OneStackConfig):
    """A language model: each token is predicted from those before it; one matrix for input and output."""

    learns: ClassVar[Mapping[str, str]] = {"texts": "next_token"}
    asked: ClassVar[str] = "generate"
    answered_by: ClassVar[str] = "qkv generate MODEL continues texts, qkv perplexity MODEL measures it"
    reads_packed: ClassVar[bool] = True

    kind: Literal["causal_lm"] = "causal_lm"
    absent: tuple[int, ...] = ()
    """Ids that are never predicted, because the vocabulary of an imported model has no such token."""

    def build(self, tokenizers: TokenizerPair) -> "CausalLM":
        positions, stack = self.build_stack(causal=True)
        tokens = PlainEmbedding(len(tokenizers.tgt), self.d_model, tokenizers.tgt.special.pad, STD)
        initialise([stack], self.num_layers)
        if isinstance(positions, Learned):
            nn.init.normal_(positions.weight, std=STD)
        return CausalLM(Embedder(tokens, positions, self.dropout), stack, self.absent)

    @model_validator(mode="after")
    def _is_causal(self) -> "CausalLMConfig":
        if not isinstance(self.attention, FullConfig):
            raise ValueError(f"attention {self.attention.kind} is not for causal_lm; use full")
        return self


class CausalLM(Model):
    """Tokens up to t to the distribution of token t + 1: pre-norm causal stack, final norm, tied output."""

    kind = "causal_lm"

    def __init__(self, embedder: Embedder, stack: Encoder, absent: Sequence[int] = ()) -> None:
        super().__init__()
        self.embedder = embedder
        self.stack = stack
        weight = embedder.tokens.weight
        self.head = PartialHead(weight, absent) if absent else LinearHead(weight)
        name_attentions(self)

    @property
    def tgt_embedding(self) -> TokenEmbedding:
        return self.embedder.tokens

    @property
    def limits(self) -> MaxLengths:
        return MaxLengths(None, self.embedder.positions.max_length)

    def forward(self, batch: Batch) -> Output:
        """Position t sees `tgt_in` up to t; of a packed row, only its own text."""
        segments, positions = (batch.segments, batch.positions) if isinstance(batch, TextBatch) else (None, None)
        return Output(self.states(batch.tgt_in, segments, positions))

    def states(self, tokens: Tensor, segments: Tensor | None = None, positions: Tensor | None = None) -> Tensor:
        """[B, T, D]; without `segments` each row is one text, padded on the right."""
        pos = torch.arange(tokens.shape[1], device=tokens.device)
        sees = causal if segments is None else both(causal, same_segment(segments, segments))
        context = AttentionContext(pos, pos, predicate=sees, drawn=positions)
        states: Tensor = self.stack(self.embedder(tokens, context.q_position_ids), context)
        return states

    def inference(self) -> Inference:
        from qkv.inference.causal import CausalInference  # which needs this file

        return Inference(
            steps=lambda attention: CausalInference(self),
            reason="a model of the kind causal_lm has no drafts and no search refine: use beam, greedy, sample or mbr",
        )

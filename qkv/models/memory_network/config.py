"""The sizes of a memory network."""

from typing import Literal

from pydantic import Field, model_validator

from qkv.core.errors import UsageError
from qkv.layers.attention.recording import name_attentions
from qkv.models.config import models
from qkv.models.heads.linear import LinearHeadConfig
from qkv.models.memory_network.model import MemoryNetwork, WordTable
from qkv.models.stepwise import StepwiseConfig
from qkv.text import TokenizerPair


@models.register
class MemoryNetworkConfig(StepwiseConfig):
    """An end-to-end memory network (Sukhbaatar et al. 2015), which answers questions about stories."""

    kind: Literal["memory_network"] = "memory_network"
    d_model: int = Field(default=64, ge=1, le=1 << 20)
    """Width of words and sentences."""
    hops: int = Field(default=3, ge=1, le=1000)
    """How often the memory is read."""
    separator: str = Field(default=".", min_length=1)
    """The token behind each sentence of the story; what follows the last one is the question."""
    max_sentences: int = Field(default=50, ge=1, le=1 << 16)
    """Sentences that the memory holds; of a longer story, the newest."""
    position_encoding: bool = True
    """Weigh each word by its place in its sentence."""
    temporal_encoding: bool = True
    """Add a learned vector for the place of a sentence in the story."""
    linear: bool = False
    """Weights of sentences without softmax. For a linear start, train so first, then from that run by start_from."""

    @property
    def own_layers(self) -> int:
        return self.hops

    def build(self, tokenizers: TokenizerPair) -> MemoryNetwork:
        special = tokenizers.src.special
        tables = [WordTable(len(tokenizers.src), self.d_model, special.pad) for _ in range(self.hops + 1)]
        model = MemoryNetwork(
            tables,
            self.head.build(tables[-1].weight),
            _separator(tokenizers, self.separator),
            special.eos,
            self.max_sentences,
            self.position_encoding,
            self.temporal_encoding,
            self.linear,
            self.dropout,
        )
        name_attentions(model)
        return model

    def data_problem(self, longest_src: int, longest_tgt: int, shared_tokenizer: bool) -> str | None:
        if not shared_tokenizer:
            return "model.kind memory_network needs one tokenizer for both sides: give text.shared"
        return super().data_problem(longest_src, longest_tgt, shared_tokenizer)

    def state_size(self, src_length: int, tgt_length: int) -> int:
        # The memories, and the question.
        return self.d_model * ((self.hops + 1) * min(self.max_sentences, src_length) + 1)

    def overrides_for(self, d_model: int, d_ff: int, num_heads: int, layers: int) -> str | None:
        return None if self.d_model <= d_model else f"model.d_model={d_model}"

    @model_validator(mode="after")
    def _fits(self) -> "MemoryNetworkConfig":
        if self.share_embeddings is not None:
            raise ValueError("share_embeddings is not for model.kind memory_network: adjacent hops share their tables")
        if not isinstance(self.head, LinearHeadConfig):
            raise ValueError(f"head {self.head.kind} is for model.kind transformer or recurrent; use linear")
        return self


def _separator(tokenizers: TokenizerPair, token: str) -> int:
    ids = tokenizers.src.encode(token)
    if len(ids) != 1 or ids[0] == tokenizers.src.special.unk:
        raise UsageError(
            f"model.separator {token!r} is not one token of the tokenizer: put it behind each sentence of the stories, "
            "with a space before it, and use text.shared whitespace"
        )
    return ids[0]

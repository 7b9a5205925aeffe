"""What the configs of encoder-decoders that decode token by token have in common."""

from typing import Literal, NamedTuple

from pydantic import Field, model_validator

from qkv.layers.embedding import TokenEmbedding
from qkv.models.config import Seq2SeqConfig
from qkv.text import TokenizerPair


class TokenTables(NamedTuple):
    """The embeddings of source, target and output; shared ones are the same object."""

    src: TokenEmbedding
    tgt: TokenEmbedding
    out: TokenEmbedding


class StepwiseConfig(Seq2SeqConfig):
    """Base class: the next token is all that the model predicts, so it has no other decoder and no draft head."""

    dropout: float = Field(default=0.2, ge=0, lt=1)
    """On the embeddings, between the layers and before the output head."""
    share_embeddings: Literal["all", "target", "none"] | None = None
    """One matrix for source, target and output (all), for target and output (target), or three (none).

    Default: all with a shared tokenizer, else target."""

    def data_problem(self, longest_src: int, longest_tgt: int, shared_tokenizer: bool) -> str | None:
        if self.share_embeddings == "all" and not shared_tokenizer:
            return "model.share_embeddings all needs one tokenizer for both sides: give text.shared"
        return super().data_problem(longest_src, longest_tgt, shared_tokenizer)

    def token_tables(self, tokenizers: TokenizerPair) -> TokenTables:
        """New embeddings, shared as configured."""
        sharing = self.share_embeddings or ("all" if tokenizers.shared else "target")
        pad = tokenizers.src.special.pad
        src = TokenEmbedding(len(tokenizers.src), self.d_model, pad)
        tgt = src if sharing == "all" else TokenEmbedding(len(tokenizers.tgt), self.d_model, pad)
        out = TokenEmbedding(len(tokenizers.tgt), self.d_model, pad) if sharing == "none" else tgt
        return TokenTables(src, tgt, out)

    @model_validator(mode="after")
    def _decodes_by_steps(self) -> "StepwiseConfig":
        if not self.decoder.autoregressive:
            raise ValueError(f"decoder {self.decoder.kind} is for model.kind transformer; leave it out")
        if self.draft is not None:
            raise ValueError(f"draft {self.draft.kind} is for model.kind transformer; leave it out")
        return self

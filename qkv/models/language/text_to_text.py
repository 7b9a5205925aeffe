"""`model.kind: text_to_text`: T5 (Raffel et al. 2020): relative positions, RMS norm, gated feed-forward."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from qkv.layers.feed_forward import AnyFeedForward, GegluConfig
from qkv.layers.positions import AnyPositions
from qkv.layers.positions.t5 import T5Config
from qkv.layers.residual import AnyResidual, PreRMSNormConfig
from qkv.models.config import models
from qkv.models.transformer.config import TransformerConfig
from qkv.models.transformer.model import Transformer
from qkv.text import TokenizerPair
from qkv.text.extra.sentinels import SentinelTokenizer


@models.register
class TextToTextConfig(TransformerConfig):
    """T5: learns spans of texts, then pairs whose sources may begin with the name of a task."""

    learns: ClassVar[Mapping[str, str]] = {"pairs": "target", "texts": "spans"}

    kind: Literal["text_to_text"] = "text_to_text"  # type: ignore[assignment]  # a kind of its own with the same keys
    residual: AnyResidual = PreRMSNormConfig()
    """Placement of the norm."""
    positions: AnyPositions = T5Config()
    """The position scheme."""
    feed_forward: AnyFeedForward = GegluConfig()
    """The activation of the feed-forward network."""
    sentinels: int = Field(default=100, ge=2, le=10_000)
    """Tokens behind the vocabulary that stand for spans."""

    def tokenizers(self, pair: TokenizerPair) -> TokenizerPair:
        """With sentinels."""
        made = SentinelTokenizer(pair.src, self.sentinels)
        return TokenizerPair(made, made)

    def build(self, tokenizers: TokenizerPair) -> Transformer:
        """Every bias keeps the value it begins with, which is zero in the attentions."""
        model = super().build(tokenizers)
        for name, parameter in model.named_parameters():
            if name.endswith(".bias"):
                parameter.requires_grad_(False)
        return model

    def data_problem(self, longest_src: int, longest_tgt: int, shared_tokenizer: bool) -> str | None:
        if not shared_tokenizer:
            return "model.kind text_to_text needs one tokenizer for both sides: give text.shared"
        return super().data_problem(longest_src, longest_tgt, shared_tokenizer)

    @model_validator(mode="after")
    def _is_plain(self) -> "TextToTextConfig":
        if self.head.copies or not self.decoder.autoregressive or self.draft is not None:
            raise ValueError("text_to_text takes no other head or decoder and no draft; leave them out")
        return self

"""The base class of model configs."""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from qkv.config.base import Config, Kinds
from qkv.layers.embedding import OpenEmbedding, TokenEmbedding
from qkv.models.base import MaxLengths, Model
from qkv.models.decoders import AnyDecoder
from qkv.models.decoders.autoregressive import AutoregressiveConfig
from qkv.models.draft_heads import AnyDraftHead
from qkv.models.heads import AnyHead
from qkv.models.heads.linear import LinearHeadConfig
from qkv.text import SPECIAL, TokenizerPair
from qkv.text.unknown.copying import CopyingTokenizers


class CrossAttentionSize(NamedTuple):
    """The number of decoder layers with weights of their own, and the heads of each."""

    layers: int
    heads: int


class ModelConfig(Config):
    """The model."""

    learns: ClassVar[Mapping[str, str]] = {}
    """What it learns: kind of data -> name of the objective (`qkv.objectives.kinds`). Other data are refused."""
    reads_packed: ClassVar[bool] = False
    """Whether a row of a batch may hold several examples."""
    asked: ClassVar[str] = ""
    """What it is asked for once it is trained, such as `translate`; a verb that asks for something else refuses it."""
    answered_by: ClassVar[str] = "no command of qkv asks it; qkv.models.saved.folder.load_model opens it in Python"
    """What to use it by, for messages."""
    told_to_data: ClassVar[tuple[str, ...]] = ()
    """Keys that `data` has too, with the same value; a recipe may leave them out there."""

    kind: str
    d_model: int
    """Width of the vectors."""

    @property
    def limits(self) -> MaxLengths:
        """The longest source and target."""
        return MaxLengths()

    @property
    def own_layers(self) -> int:
        """The number of layers with separate weights."""
        raise NotImplementedError

    def tokenizers(self, pair: TokenizerPair) -> TokenizerPair:
        """The tokenizers as the model uses them."""
        return pair

    def build(self, tokenizers: TokenizerPair) -> Model:
        """A new model for these tokenizers; seed torch before for reproducible weights."""
        raise NotImplementedError

    def data_problem(self, longest_src: int, longest_tgt: int, shared_tokenizer: bool) -> str | None:
        """Why it cannot be trained on examples up to these lengths, END included; None: it can."""
        return None

    def misfit(self, train: Any, dev: Any) -> str | None:
        """Why it cannot be trained on these stores, as far as only the prepared data tell; None: it can."""
        return None

    def overrides_for(self, d_model: int, d_ff: int, num_heads: int, layers: int) -> str | None:
        """The overrides that make it as small as this; None: it is not larger."""
        return None


class Seq2SeqConfig(ModelConfig):
    """Base class of the models from a source to a target."""

    learns: ClassVar[Mapping[str, str]] = {"pairs": "target"}
    asked: ClassVar[str] = "translate"
    answered_by: ClassVar[str] = "qkv translate MODEL writes its outputs"

    head: AnyHead = LinearHeadConfig()
    """How the decoder's states become probabilities of tokens."""
    decoder: AnyDecoder = AutoregressiveConfig()
    """Token by token, or all tokens at once."""
    draft: AnyDraftHead | None = None
    """A draft head: predicts several tokens at once, so that greedy search is faster with the same output."""

    @property
    def cross_attention_size(self) -> CrossAttentionSize | None:
        """Of the cross-attention whose weights an objective can train; None: there is none."""
        return None

    def embedding(self, vocab_size: int, pad: int) -> TokenEmbedding:
        """A new embedding of tokens; with a head that copies, one that also reads ids beyond the vocabulary."""
        if self.head.copies:
            return OpenEmbedding(vocab_size, self.d_model, pad, SPECIAL.unk)
        return TokenEmbedding(vocab_size, self.d_model, pad)

    def tokenizers(self, pair: TokenizerPair) -> TokenizerPair:
        """The tokenizers as the model uses them: with a head that copies, unknown pieces of a source have ids."""
        return CopyingTokenizers(pair.src, pair.tgt) if self.head.copies else pair

    def data_problem(self, longest_src: int, longest_tgt: int, shared_tokenizer: bool) -> str | None:
        if self.head.copies and not shared_tokenizer:
            return f"model.head {self.head.kind} needs one tokenizer for both sides, to copy tokens: give text.shared"
        return None

    def state_size(self, src_length: int, tgt_length: int) -> int:
        """The size of the decoder state of one hypothesis, in numbers."""
        raise NotImplementedError


models = Kinds[ModelConfig]("model", default="transformer")

"""The base class of decoder configs. A new kind is a new file here."""

from qkv.config.base import Config, Kinds
from qkv.models.transformer.model import Transformer, TransformerParts


class DecoderConfig(Config):
    """Base class of the configs of decoder kinds."""

    kind: str

    @property
    def autoregressive(self) -> bool:
        """Whether tokens are generated one after the other."""
        return False

    @property
    def own_ids(self) -> int:
        """Number of output ids besides those of the vocabulary; they come last."""
        return 0

    @property
    def glances(self) -> bool:
        """Whether objective.glancing works with it."""
        return False

    @property
    def sums_paths(self) -> bool:
        """Whether its likelihood is a sum over the paths that give the target, so that no position has one label."""
        return False

    @property
    def predicts_length(self) -> bool:
        """Whether it predicts the length of the output from the encoder's last states."""
        return False

    def longest_canvas(self, src_tokens: int, tgt_tokens: int) -> int:
        """Positions that the decoder may need in training for pairs up to these lengths, END included."""
        return tgt_tokens

    def build(self, parts: TransformerParts) -> Transformer:
        raise NotImplementedError


decoders = Kinds[DecoderConfig]("decoder")

"""How the output comes about: token by token, or all of it at once. A new way is a new file here."""

from qkv.config.base import Config, Kinds
from qkv.models.transformer.model import Transformer, TransformerParts


class DecoderConfig(Config):
    """How the output comes about."""

    kind: str

    @property
    def autoregressive(self) -> bool:
        """Whether each token is chosen after those before it."""
        return False

    @property
    def own_ids(self) -> int:
        """Ids that the output needs besides those of the vocabulary; they stand behind it."""
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
        """Whether it reads the length of the output off the encoder's last states."""
        return False

    def longest_canvas(self, src_tokens: int, tgt_tokens: int) -> int:
        """Positions that the decoder may need in training for pairs up to these lengths, END included."""
        return tgt_tokens

    def build(self, parts: TransformerParts) -> Transformer:
        raise NotImplementedError


decoders = Kinds[DecoderConfig]("decoder")

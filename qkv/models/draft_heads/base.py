"""Small parts beside an autoregressive model that guess several tokens at once. A new one is a new file here."""

from torch import nn

from qkv.config.base import Config, Kinds


class DraftHeadConfig(Config):
    """What guesses, and whether the model learns with it."""

    kind: str
    frozen: bool = True
    """Only the guessing part is trained, and the model stays as it was (`start_from`); false: both together."""

    def build(self, d_model: int, num_heads: int, d_ff: int, dropout: float) -> "DraftHead":
        """For a model of these sizes."""
        raise NotImplementedError


class DraftHead(nn.Module):
    """Reads what the model has computed anyway: guesses cost little beside a pass of the decoder."""


draft_heads = Kinds[DraftHeadConfig]("draft_head")

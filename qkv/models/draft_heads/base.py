"""Draft heads of an autoregressive model: they predict several tokens at once. A new kind is a new file here."""

from torch import nn

from qkv.config.base import Config, Kinds


class DraftHeadConfig(Config):
    """The kind of draft head, and whether the model is trained with it."""

    kind: str
    frozen: bool = True
    """Train only the draft head and freeze the model (`start_from`); false: train both."""

    def build(self, d_model: int, num_heads: int, d_ff: int, dropout: float) -> "DraftHead":
        """For a model of these sizes."""
        raise NotImplementedError


class DraftHead(nn.Module):
    """Reads states that the model has computed anyway, so that a draft is cheap."""


draft_heads = Kinds[DraftHeadConfig]("draft_head")

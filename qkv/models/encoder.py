"""The encoder: self-attention and feed-forward, layer upon layer."""

from torch import Tensor, nn

from qkv.layers.attention import MultiHeadAttention
from qkv.layers.feed_forward import PositionWise
from qkv.layers.residual import Residual
from qkv.layers.view import View
from qkv.models.stack import Stack


class EncoderLayer(nn.Module):
    """x = sublayer(x, self-attention); x = sublayer(x, feed-forward)"""

    def __init__(self, attention: MultiHeadAttention, feed_forward: PositionWise, residuals: list[Residual]) -> None:
        super().__init__()
        self.attention = attention
        self.feed_forward = feed_forward
        self.attention_residual, self.feed_forward_residual = residuals

    def forward(self, x: Tensor, view: View) -> Tensor:
        x = self.attention_residual(x, lambda h: self.attention(h, view))
        return self.feed_forward_residual(x, self.feed_forward)


class Encoder(Stack[EncoderLayer]):
    """Embedded source [B, S, D] to memory [B, S, D]."""

    def forward(self, x: Tensor, view: View) -> Tensor:
        for layer in self.in_order():
            x = layer(x, view)
        return self.final(x)

"""The decoder: masked self-attention, attention to the memory, feed-forward, layer upon layer."""

from torch import Tensor, nn

from qkv.layers.attention import MultiHeadAttention
from qkv.layers.feed_forward import PositionWise
from qkv.layers.residual import Residual
from qkv.layers.view import View
from qkv.models.stack import Stack


class DecoderLayer(nn.Module):
    """x = sublayer(x, masked self-attention); sublayer(x, cross-attention); sublayer(x, feed-forward)"""

    def __init__(
        self,
        attention: MultiHeadAttention,
        cross_attention: MultiHeadAttention,
        feed_forward: PositionWise,
        residuals: list[Residual],
    ) -> None:
        super().__init__()
        self.attention = attention
        self.cross_attention = cross_attention
        self.feed_forward = feed_forward
        self.attention_residual, self.cross_residual, self.feed_forward_residual = residuals

    def forward(self, x: Tensor, view: View, memory: Tensor, cross_view: View) -> Tensor:
        key_value = self.cross_attention.project(memory, cross_view.k_pos)
        x = self.attention_residual(x, lambda h: self.attention(h, view))
        x = self.cross_residual(x, lambda h: self.cross_attention.attend(h, key_value, cross_view))
        return self.feed_forward_residual(x, self.feed_forward)


class Decoder(Stack[DecoderLayer]):
    """Embedded target [B, T, D] and memory [B, S, D] to decoded [B, T, D]."""

    def forward(self, x: Tensor, view: View, memory: Tensor, cross_view: View) -> Tensor:
        for layer in self.in_order():
            x = layer(x, view, memory, cross_view)
        return self.final(x)

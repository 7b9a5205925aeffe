"""The block of ByteNet (Kalchbrenner et al. 2016): a dilated convolution between two linear maps."""

from collections.abc import Sequence
from typing import cast

from torch import Tensor, nn
from torch.nn import functional as F

from qkv.layers.convolution import SequenceConvolution, append
from qkv.layers.dropout import Dropout


class ByteNetBlock(nn.Module):
    """x + W_2 relu(norm(conv(relu(norm(W_1 relu(norm(x))))))), with a convolution half as wide as x."""

    def __init__(self, d_model: int, kernel: int, dilation: int, dropout: float = 0.0) -> None:
        super().__init__()
        inner = d_model // 2
        self.norm = nn.LayerNorm(d_model)
        self.shrink = nn.Linear(d_model, inner)
        self.shrunk_norm = nn.LayerNorm(inner)
        self.convolution = SequenceConvolution(inner, inner, kernel, dilation)
        self.mixed_norm = nn.LayerNorm(inner)
        self.grow = nn.Linear(inner, d_model)
        self.dropout = Dropout(dropout)

    def inputs(self, x: Tensor) -> Tensor:
        """What the convolution reads: [B, T, D] to [B, T, D / 2]."""
        return F.relu(self.shrunk_norm(self.shrink(F.relu(self.norm(x)))))

    def outputs(self, x: Tensor, window: Tensor) -> Tensor:
        """The block's result for x [B, T, D], from the convolution's inputs around it, [B, T + span, D / 2]."""
        mixed = F.relu(self.mixed_norm(self.convolution(window)))
        result: Tensor = x + self.dropout(self.grow(mixed))
        return result


class ByteNetStack(nn.Module):
    """Blocks one after the other."""

    def __init__(self, blocks: Sequence[ByteNetBlock]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def in_order(self) -> list[ByteNetBlock]:
        return cast(list[ByteNetBlock], list(self.blocks))


class ByteNetEncoder(ByteNetStack):
    """Blocks that read as far left as right; padding counts as zeros."""

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        """[B, T, D] to [B, T, D]; `keep` [B, T] is True where a sentence has a column."""
        real = keep[..., None]
        for block in self.in_order():
            side = block.convolution.span // 2
            x = block.outputs(x, F.pad(block.inputs(x) * real, (0, 0, side, side)))
        return x * real


class ByteNetDecoder(ByteNetStack):
    """Blocks that read only to the left; each keeps the last `span` inputs of its convolution."""

    def begin(self, like: Tensor, rows: int) -> tuple[Tensor, ...]:
        """Zeros before the first position."""
        spans = ((block.convolution.span, block.shrink.out_features) for block in self.in_order())
        return tuple(like.new_zeros(rows, span, width) for span, width in spans)

    def forward(self, x: Tensor, pasts: Sequence[Tensor]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """New positions [R, W, D] behind those of `pasts`, to their results and the new pasts."""
        after = []
        for block, past in zip(self.in_order(), pasts, strict=True):
            window, past = append(past, block.inputs(x))
            x = block.outputs(x, window)
            after.append(past)
        return x, tuple(after)

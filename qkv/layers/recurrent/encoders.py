"""Encoders of a recurrent model: PyTorch's LSTM and GRU over a padded batch, in one direction or in both."""

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from qkv.config.base import Config, Kinds
from qkv.core.shapes import SrcKeep
from qkv.layers.recurrent.cells import Cells


class Encoded(NamedTuple):
    """What an encoder makes of its sources."""

    states: Tensor
    """[B, S, D], zeros at padding."""
    last: Tensor
    """[B, D], the state of the last layer when all of the source has been read."""


class RecurrentEncoderConfig(Config):
    """The encoder of a recurrent model."""

    kind: str

    def problem(self, cell: Cells, d_model: int) -> str | None:
        """Why it cannot be built with these cells and this width; None: it can."""
        return None

    def build(self, cell: Cells, d_model: int, num_layers: int, dropout: float) -> nn.Module:
        """A module that maps embeddings [B, S, D] and `keep` [B, S] to `Encoded`."""
        raise NotImplementedError


recurrent_encoders = Kinds[RecurrentEncoderConfig]("recurrent encoder")


@recurrent_encoders.register
class BidirectionalConfig(RecurrentEncoderConfig):
    """From both ends (Schuster and Paliwal 1997): a state has half of its width from each direction."""

    kind: Literal["bidirectional"] = "bidirectional"

    def problem(self, cell: Cells, d_model: int) -> str | None:
        return (
            f"d_model ({d_model}) must be even: each direction of the encoder has half of it" if d_model % 2 else None
        )

    def build(self, cell: Cells, d_model: int, num_layers: int, dropout: float) -> nn.Module:
        return BidirectionalEncoder(cell, d_model, num_layers, dropout)


@recurrent_encoders.register
class UnidirectionalConfig(RecurrentEncoderConfig):
    """From left to right, or from right to left."""

    kind: Literal["unidirectional"] = "unidirectional"
    reverse: bool = False
    """Read the source from its end, so that its first word is the one read last (Sutskever et al. 2014)."""

    def build(self, cell: Cells, d_model: int, num_layers: int, dropout: float) -> nn.Module:
        return UnidirectionalEncoder(cell, d_model, num_layers, dropout, self.reverse)


def _kernel(cell: Cells, d_model: int, width: int, layers: int, dropout: float, bidirectional: bool) -> nn.RNNBase:
    kernel = nn.LSTM if cell == "lstm" else nn.GRU
    between = dropout if layers > 1 else 0.0
    return kernel(d_model, width, layers, batch_first=True, bidirectional=bidirectional, dropout=between)


class KernelEncoder(nn.Module):
    """PyTorch's LSTM or GRU; no state depends on the padding, which is on the right."""

    def __init__(self, cell: Cells, kernel: nn.RNNBase) -> None:
        super().__init__()
        self.cell = cell
        self.add_module(cell, kernel)

    @property
    def kernel(self) -> nn.Module:
        """PyTorch's module; its parameters are saved under the name of the cell."""
        return self.get_submodule(self.cell)

    def run(self, x: Tensor, keep: SrcKeep) -> tuple[Tensor, Tensor]:
        """[B, S, D] to the states [B, S, D] and the last h of each layer and direction."""
        packed = pack_padded_sequence(x, keep.sum(dim=1).cpu(), batch_first=True, enforce_sorted=False)
        found, last = self.kernel(packed)
        states, _ = pad_packed_sequence(found, batch_first=True, total_length=x.shape[1])
        return states, last[0] if self.cell == "lstm" else last


class BidirectionalEncoder(KernelEncoder):
    """h_j = [forward(x_1 ... x_j); backward(x_n ... x_j)], each half as wide as the result."""

    def __init__(self, cell: Cells, d_model: int, num_layers: int, dropout: float = 0.0) -> None:
        super().__init__(cell, _kernel(cell, d_model, d_model // 2, num_layers, dropout, bidirectional=True))

    def forward(self, x: Tensor, keep: SrcKeep) -> Encoded:
        states, last = self.run(x, keep)
        return Encoded(states, torch.cat([last[-2], last[-1]], dim=-1))


class UnidirectionalEncoder(KernelEncoder):
    """h_j = forward(x_1 ... x_j), or with `reverse` backward(x_n ... x_j)."""

    def __init__(self, cell: Cells, d_model: int, num_layers: int, dropout: float = 0.0, reverse: bool = False) -> None:
        super().__init__(cell, _kernel(cell, d_model, d_model, num_layers, dropout, bidirectional=False))
        self.reverse = reverse

    def forward(self, x: Tensor, keep: SrcKeep) -> Encoded:
        states, last = self.run(_reversed(x, keep) if self.reverse else x, keep)
        return Encoded(_reversed(states, keep) if self.reverse else states, last[-1])


def _reversed(x: Tensor, keep: SrcKeep) -> Tensor:
    """[B, S, D] with the real positions of each sentence in reverse order; padding stays behind them."""
    places = torch.arange(x.shape[1], device=x.device)
    opposite = keep.sum(dim=1, keepdim=True) - 1 - places
    return x.gather(1, torch.where(keep, opposite, places)[..., None].expand_as(x))

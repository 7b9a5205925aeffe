"""Convolutional gated recurrent units (Kaiser and Sutskever 2016), the layers of a Neural GPU."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class ConvolutionalGRU(nn.Module):
    """u s + (1 - u) tanh(U * (r s) + b), gates u = σ(U' * s + b'), r = σ(U'' * s + b''), where * is a convolution.

    With a tape p, each of the three also adds its own W * p (Kaiser and Bengio 2016). The gates are
    clip(1.2 σ - 0.1, 0, 1), so that they can be entirely open or closed.

    Args:
        channels: Channels of the memory, D.
        kernel: Cells that a convolution reads along the sequence.
        rows: Rows of the memory; with one row, a convolution reads that one only.
        tape: Whether there is a tape.
    """

    def __init__(self, channels: int, kernel: int, rows: int, tape: bool = False) -> None:
        super().__init__()
        size = (kernel if rows > 1 else 1, kernel)
        around = (size[0] // 2, size[1] // 2)
        self.gates = nn.Conv2d(channels, 2 * channels, size, padding=around)
        self.candidate = nn.Conv2d(channels, channels, size, padding=around)
        self.from_tape = nn.Conv2d(channels, 3 * channels, size, padding=around, bias=False) if tape else None
        nn.init.ones_(self.gates.get_parameter("bias"))  # mostly keep what is there

    def forward(self, s: Tensor, tape: Tensor | None = None) -> Tensor:
        """Memory [R, D, rows, n] to the memory after one step."""
        scores, added = self.gates(s), torch.zeros((), dtype=s.dtype, device=s.device)
        if self.from_tape is not None and tape is not None:
            to_gates, added = self.from_tape(tape).tensor_split([2 * s.shape[1]], dim=1)
            scores = scores + to_gates
        u, r = (1.2 * torch.sigmoid(scores) - 0.1).clamp(0, 1).chunk(2, dim=1)
        return u * s + (1 - u) * torch.tanh(self.candidate(r * s) + added)


class MemoryStep(nn.Module):
    """One step of the memory: units one after the other."""

    def __init__(self, channels: int, kernel: int, rows: int, layers: int, tape: bool) -> None:
        super().__init__()
        self.units = nn.ModuleList(ConvolutionalGRU(channels, kernel, rows, tape) for _ in range(layers))

    def forward(self, s: Tensor, keep: Tensor, tape: Tensor | None = None) -> Tensor:
        """`keep` [R, 1, 1, n] is True for the cells of a row's own memory; the others stay zero."""
        for unit in self.units:
            s = unit(s, tape) * keep
        return s


def place(vectors: Tensor, rows: int, cells: int) -> Tensor:
    """A memory [R, D, rows, cells] with the vectors [R, S, D] in its first row, zeros elsewhere."""
    return F.pad(vectors.transpose(1, 2)[:, :, None], (0, cells - vectors.shape[1], 0, rows - 1))

"""Dropout with fast random numbers; see `kernels/dropout.py`."""

from torch import Tensor, nn

from qkv.kernels.dropout import dropout


class Dropout(nn.Module):
    """In training each element is zeroed with probability `rate` and the others are scaled by 1 / (1 - rate)."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.rate) if self.training else x

    def extra_repr(self) -> str:
        return f"rate={self.rate}"

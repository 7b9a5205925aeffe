"""The norms of all states of an encoder, for the wirings that use every one of them."""

from collections.abc import Callable

from torch import Tensor, nn


class StateNorms(nn.Module):
    """S_0, which no norm has touched, gets a layer norm; S_1 ... S_{N-1} what the residual form puts after a stack.

    S_N has passed that already. After post-norm, which ends in a norm, there is nothing to add.
    """

    def __init__(self, encoder_layers: int, d_model: int, build_norm: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(d_model), *(build_norm() for _ in range(encoder_layers - 1))])

    def forward(self, states: list[Tensor]) -> list[Tensor]:
        return [*(norm(state) for norm, state in zip(self.norms, states, strict=False)), states[-1]]

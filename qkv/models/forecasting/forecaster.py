"""The patched forecaster as a plain module: windows [B, L, C] to what follows them [B, horizon, C]."""

from jaxtyping import Float
from torch import Tensor, nn

from qkv.functional.patches.series import (
    denormalize,
    normalize_window,
    num_series_patches,
    series_patches,
    window_scale,
)
from qkv.layers.attention.recording import name_attentions
from qkv.layers.dropout import Dropout
from qkv.models.transformer.standalone import Encoder, Kind


class PatchForecaster(nn.Module):
    """Each channel by itself: normalise the window, cut it into patches, encode them, map all to the horizon.

    The weights are shared by the channels, so any number of them can be forecast. The window's mean and standard
    deviation are taken out before and put back after (Kim et al. 2022).

    Args:
        context: values of a window.
        horizon: values to forecast.
        patch: values of a patch.
        stride: values from one patch to the next.
        d_model: width of the residual stream.
        num_layers: depth of the encoder.
        num_heads: attention heads; must divide `d_model`.
        d_ff: inner width of the feed-forward networks; by default 4 `d_model`.
        dropout: dropout probability of the sublayers' outputs and of the head's input.
        attention: kind of the self-attention (`qkv.attentions`).
        residual: placement of the layer norm.
        feed_forward: `gelu`, `relu` or `swiglu`.

    Examples:
        >>> import torch
        >>> from qkv import PatchForecaster
        >>> model = PatchForecaster(context=48, horizon=12, d_model=32, num_layers=2, num_heads=4)
        >>> model(torch.randn(5, 48, 3)).shape
        torch.Size([5, 12, 3])
    """

    def __init__(
        self,
        context: int,
        horizon: int,
        patch: int = 16,
        stride: int = 8,
        d_model: int = 128,
        num_layers: int = 3,
        num_heads: int = 16,
        d_ff: int | None = None,
        dropout: float = 0.2,
        attention: Kind = "full",
        residual: Kind = "pre",
        feed_forward: Kind = "gelu",
    ) -> None:
        super().__init__()
        self.context, self.horizon = context, horizon
        self.patch, self.stride = patch, stride
        patches = num_series_patches(context, patch, stride)
        self.project = nn.Linear(patch, d_model)
        positions = {"kind": "learned", "max_length": patches}
        self.encoder = Encoder(
            d_model, num_layers, num_heads, d_ff, dropout, attention, positions, residual, feed_forward
        )
        self.dropout = Dropout(dropout)
        self.head = nn.Linear(patches * d_model, horizon)
        name_attentions(self)

    def forward(self, x: Float[Tensor, "B context channels"]) -> Float[Tensor, "B horizon channels"]:
        windows = x.transpose(1, 2)
        mean, scale = window_scale(windows)
        future = self._future(normalize_window(windows, mean, scale).flatten(0, 1))
        return denormalize(future.view(*windows.shape[:2], -1), mean, scale).transpose(1, 2)

    def _future(self, windows: Float[Tensor, "rows context"]) -> Float[Tensor, "rows horizon"]:
        states = self.encoder(self.project(series_patches(windows, self.patch, self.stride)))
        return self.head(self.dropout(states.flatten(1)))

"""Attention that is convolution: one head for each cell of a kernel (Cordonnier, Loukas and Jaggi 2020)."""

import math
from dataclasses import dataclass
from itertools import product

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from qkv.core.errors import QkvError

Convolution = nn.Conv1d | nn.Conv2d


@dataclass(frozen=True)
class Frame:
    """Which points of a grid are padded, and which of them ask; one number for each of its axes."""

    before: tuple[int, ...]
    """Points that are put in front."""
    after: tuple[int, ...]
    mode: str
    """What they hold, as `F.pad` calls it."""
    first: tuple[int, ...]
    """Where the first query stands on the padded grid."""
    rest: tuple[int, ...]
    """How many points there are at least behind the last query."""
    stride: tuple[int, ...]

    def pad(self, x: Tensor) -> Tensor:
        """[B, D, *grid]"""
        sides = [side for pair in zip(reversed(self.before), reversed(self.after), strict=True) for side in pair]
        return F.pad(x, sides, self.mode)

    def queries(self, sizes: tuple[int, ...]) -> list[range]:
        """Along each axis of the padded grid."""
        axes = zip(self.first, sizes, self.rest, self.stride, strict=True)
        return [range(first, size - rest, stride) for first, size, rest, stride in axes]


class QuadraticAttention(nn.Module):
    """out_q = Σ_h Σ_k softmax_k(-α_h ‖(k - q) - Δ_h‖²) x_k W_v^h W_o^h + b, on a grid of one or two axes.

    Where the heads look does not depend on what is there. Both Δ and α are learned; fresh ones look around at random.
    """

    def __init__(self, d_in: int, d_out: int, num_heads: int, head_width: int, frame: Frame) -> None:
        super().__init__()
        self.frame = frame
        self.centres = nn.Parameter(torch.randn(num_heads, len(frame.first)))
        self.sharpness = nn.Parameter(torch.ones(num_heads))
        self.value = nn.Parameter(torch.empty(num_heads, d_in, head_width))
        self.output = nn.Parameter(torch.empty(num_heads, head_width, d_out))
        self.bias = nn.Parameter(torch.zeros(d_out))
        for weight in (self.value, self.output):
            for head in weight:
                nn.init.xavier_uniform_(head)

    def forward(self, x: Tensor) -> Tensor:
        """[B, D_in, *grid] to [B, D_out, *points]; without B too."""
        axes = len(self.frame.first)
        if x.dim() == axes + 1:
            return self(x.unsqueeze(0)).squeeze(0)
        padded = self.frame.pad(x)
        sizes = tuple(padded.shape[2:])
        values = torch.einsum("bik,hie->bhke", padded.flatten(2), self.value)
        output = self.weights(sizes).to(values.dtype) @ values
        out = torch.einsum("bhqe,heo->boq", output, self.output) + self.bias[:, None]
        return out.unflatten(-1, [len(points) for points in self.frame.queries(sizes)])

    def weights(self, sizes: tuple[int, ...]) -> Tensor:
        """[H, Q, K] for a padded grid of these sizes."""
        device = self.centres.device
        q_points, k_points = (
            torch.tensor(list(product(*axes)), device=device).view(-1, len(sizes))
            for axes in (self.frame.queries(sizes), [range(size) for size in sizes])
        )
        logits = quadratic_logits(q_points, k_points, self.centres, self.sharpness)
        return torch.softmax(logits.to(torch.promote_types(logits.dtype, torch.float32)), dim=-1)


def attention_from_convolution(
    convolution: nn.Module, sharpness: float | None = None, causal: bool = False
) -> QuadraticAttention:
    """The attention that computes what a convolution does: head h looks at the point Δ_h of kernel cell h.

    W_v^h W_o^h is the kernel's slice at that cell, so d_h = min(D_in, D_out) is enough. `sharpness` is α, by default
    the least one for which the weights are exactly one-hot. With `causal`, a convolution without padding becomes one
    over what stands before: its input gets as many zeros in front as keep the length.
    """
    if not isinstance(convolution, Convolution):
        raise QkvError(f"only nn.Conv1d and nn.Conv2d can be made attention, not {type(convolution).__name__}")
    frame, centres = _frame(convolution, causal)
    slices = _slices(convolution)
    cells, d_in, d_out = slices.shape
    made = QuadraticAttention(d_in, d_out, cells, min(d_in, d_out), frame).to(slices)
    same = torch.eye(min(d_in, d_out)).to(slices).expand(cells, -1, -1)
    alpha = one_hot_sharpness(torch.promote_types(slices.dtype, torch.float32)) if sharpness is None else sharpness
    with torch.no_grad():
        made.centres.copy_(centres)
        made.sharpness.fill_(alpha)
        made.value.copy_(slices if d_out <= d_in else same)
        made.output.copy_(same if d_out <= d_in else slices)
        if convolution.bias is not None:
            made.bias.copy_(convolution.bias)
    return made


def _slices(convolution: Convolution) -> Tensor:
    """[cells, D_in, D_out]; groups see only their own channels, the others are 0."""
    weight, groups = convolution.weight.detach(), convolution.groups
    by_group = weight.flatten(2).unflatten(0, (groups, -1))
    blocks = by_group.new_zeros(by_group.shape[-1], groups, by_group.shape[2], groups, by_group.shape[1])
    for group in range(groups):
        blocks[:, group, :, group] = by_group[group].permute(2, 1, 0)
    return blocks.flatten(3, 4).flatten(1, 2)


def _frame(convolution: Convolution, causal: bool) -> tuple[Frame, Tensor]:
    """Where the queries stand, and the point that each cell of the kernel looks at, [cells, axes]."""
    kernel, dilation = convolution.kernel_size, convolution.dilation
    reach = tuple(step * (size - 1) for step, size in zip(dilation, kernel, strict=True))
    if causal and (len(kernel) > 1 or convolution.padding not in ((0,), "valid")):
        raise QkvError("a causal convolution is an nn.Conv1d without padding; leave padding out, or causal")
    first = reach if causal else tuple(step * (size // 2) for step, size in zip(dilation, kernel, strict=True))
    if convolution.padding == "same":
        before = tuple(total // 2 for total in reach)
        after = tuple(total - half for total, half in zip(reach, before, strict=True))
    elif isinstance(convolution.padding, str):
        before = after = (0,) * len(kernel)
    else:
        before = after = tuple(convolution.padding)
    if causal:
        before = reach
    mode = "constant" if convolution.padding_mode == "zeros" else convolution.padding_mode
    rest = tuple(total - ahead for total, ahead in zip(reach, first, strict=True))
    cells = product(*(range(0, step * size, step) for step, size in zip(dilation, kernel, strict=True)))
    centres = torch.tensor(list(cells)) - torch.tensor(first)
    return Frame(before, after, mode, first, rest, tuple(convolution.stride)), centres


def quadratic_logits(
    q_points: Int[Tensor, "Q dims"],
    k_points: Int[Tensor, "K dims"],
    centres: Float[Tensor, "H dims"],
    sharpness: Float[Tensor, " H"],
) -> Float[Tensor, "H Q K"]:
    """v_h · r_δ with δ = key - query, r_δ = (‖δ‖², δ) and v_h = -α (1, -2 Δ_h).

    That is -α ‖δ - Δ_h‖² but for a constant, which the softmax does not see: the closer δ is to Δ_h, the more weight.
    """
    offsets = (k_points[None, :, :] - q_points[:, None, :]).to(centres.dtype)
    squares = offsets.square().sum(dim=-1)
    products = torch.einsum("qkd,hd->hqk", offsets, centres)
    return -sharpness[:, None, None] * (squares - 2 * products)


def one_hot_sharpness(dtype: torch.dtype) -> int:
    """The least whole α for which exp(-α) is 0 in this type: then a softmax over whole distances is exactly one-hot."""
    info = torch.finfo(dtype)
    return math.ceil(-(math.log(info.tiny) + math.log(info.eps) - math.log(2)))

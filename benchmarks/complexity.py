"""Table 1 of the paper by measurement: operations, steps that wait for one another, and path lengths of a layer.

    python benchmarks/complexity.py [--pictures FOLDER]

Operations are multiplications and additions that PyTorch counts while a layer runs; attention is counted without the
four projections, which all kinds have, as the paper counts it. How they grow with the length n, and with the
width d, is the slope of a line through the logarithms.

Steps that wait for one another are the longest chain in the graph that autograd records.

A path is how many layers a signal passes from the first input to the last output: layers are put on each other until
the derivative of the last output by the first input is no longer 0. A step of the recurrent layer, at all positions at
once, is such a layer.
"""

import argparse
import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from qkv.functional.attention import scaled_dot_product
from qkv.functional.masks import build_mask, within
from qkv.kernels.attention import attention
from qkv.kernels.window import Window, window_attention
from qkv.visual.charts import draw_lines

Layer = Callable[[Tensor], Tensor]
KERNEL, WINDOW = 3, 4


def self_attention(_: int) -> Layer:
    return lambda x: attention(x[:, None], x[:, None], x[:, None])[:, 0]


def restricted(_: int) -> Layer:
    return lambda x: window_attention(x[:, None], x[:, None], x[:, None], Window(WINDOW, WINDOW))[:, 0]


def recurrent(width: int) -> Layer:
    layer = nn.GRU(width, width, batch_first=True)
    return lambda x: layer(x)[0]


def convolutional(width: int, dilation: int = 1) -> Layer:
    layer = nn.Conv1d(width, width, KERNEL, padding=dilation * (KERNEL // 2), dilation=dilation)
    return lambda x: layer(x.transpose(1, 2)).transpose(1, 2)


LAYERS: dict[str, Callable[[int], Layer]] = {
    "self-attention": self_attention,
    "recurrent (GRU)": recurrent,
    f"convolutional, k = {KERNEL}": convolutional,
    f"convolutional, k = {KERNEL}, dilated": partial(convolutional, dilation=KERNEL),
    f"restricted self-attention, r = {WINDOW}": restricted,
}


def operations(kind: str, length: int, width: int) -> int:
    """Of one layer on [1, length, width]."""
    layer, x = LAYERS[kind](width), torch.randn(1, length, width)
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):  # the fused kernel is not counted
        layer(x)
    flops: int = counter.get_total_flops()
    return flops


def waiting(kind: str, length: int) -> int:
    """The longest chain of operations, each of which needs the one before."""
    x = torch.randn(1, length, 4, requires_grad=True)
    last = LAYERS[kind](4)(x).grad_fn
    assert last is not None
    order, seen, open_nodes = [], set(), [(last, False)]
    while open_nodes:  # after this, a node stands behind all that it needs
        node, finished = open_nodes.pop()
        if finished:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            open_nodes.append((node, True))
            open_nodes.extend((before, False) for before, _ in node.next_functions if before is not None)
    depth: dict[object, int] = {}
    for node in order:
        depth[node] = 1 + max((depth[before] for before, _ in node.next_functions if before is not None), default=0)
    return depth[last]


def attended(window: int | None) -> Callable[[int, Tensor], Tensor]:
    """One layer of attention by its definition; the kernels know no forward derivative."""

    def layer(_: int, x: Tensor) -> Tensor:
        pos = torch.arange(x.shape[1])
        mask = None if window is None else build_mask(within(window), pos, pos, None)
        return scaled_dot_product(x[:, None], x[:, None], x[:, None], mask)[0][:, 0]

    return layer


def recurrent_step(x: Tensor) -> Callable[[int, Tensor], Tensor]:
    """h_t = cell(x_t, h_{t-1}) at all positions at once, from the states that the step before left."""
    cell = nn.GRUCell(x.shape[2], x.shape[2]).double()

    def layer(number: int, h: Tensor) -> Tensor:
        before = torch.zeros_like(h) if number == 0 else torch.cat([torch.zeros_like(h[:, :1]), h[:, :-1]], dim=1)
        after: Tensor = cell(x[0], before[0])
        return after[None]

    return layer


def convolved(width: int, growth: int) -> Callable[[int, Tensor], Tensor]:
    """The kernel ends at its position; layer l looks `growth`^l positions apart, as ByteNet's and WaveNet's do."""
    weight = torch.randn(width, width, KERNEL, dtype=torch.double)

    def layer(number: int, x: Tensor) -> Tensor:
        step = growth**number
        padded = nn.functional.pad(x.transpose(1, 2), ((KERNEL - 1) * step, 0))
        return torch.tanh(nn.functional.conv1d(padded, weight, dilation=step)).transpose(1, 2)

    return layer


def path(kind: str, length: int, width: int = 4) -> int:
    """Layers until ∂ out_n / ∂ in_1 is not 0."""
    x = torch.randn(1, length, width, dtype=torch.double)
    first = torch.zeros_like(x)
    first[:, 0] = 1
    with forward_ad.dual_level():
        x = forward_ad.make_dual(x, first)
        stack = {
            "self-attention": attended(None),
            "recurrent (GRU)": recurrent_step(x),
            f"convolutional, k = {KERNEL}": convolved(width, 1),
            f"convolutional, k = {KERNEL}, dilated": convolved(width, KERNEL),
            f"restricted self-attention, r = {WINDOW}": attended(WINDOW),
        }[kind]
        for number in range(length):
            x = stack(number, x)
            tangent = forward_ad.unpack_dual(x).tangent
            if tangent is not None and bool((tangent[:, -1] != 0).any()):
                return number + 1
    raise AssertionError("every layer of the table brings a signal on by one position at least")


def slope(points: Sequence[tuple[int, int]]) -> float:
    (x0, y0), (x1, y1) = points[0], points[-1]
    return math.log(y1 / y0) / math.log(x1 / x0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", nargs="+", type=int, default=[128, 256, 512, 1024])
    parser.add_argument("--widths", nargs="+", type=int, default=[32, 64, 128])
    parser.add_argument("--short", nargs="+", type=int, default=[8, 16, 32, 64], help="lengths for steps and paths")
    parser.add_argument("--pictures", type=Path, help="folder for operations.svg and paths.svg")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    n, d = options.lengths[len(options.lengths) // 2], options.widths[len(options.widths) // 2]
    costs = {kind: [(length, operations(kind, length, d)) for length in options.lengths] for kind in LAYERS}
    paths = {kind: [(length, path(kind, length)) for length in options.short] for kind in LAYERS}
    longest = options.short[-1]
    print(f"| layer | operations, n = {n}, d = {d} | power of n | power of d | waiting | path, n = {longest} |")
    print("|---|---:|---:|---:|---:|---:|")
    for kind in LAYERS:
        by_width = [(width, operations(kind, n, width)) for width in options.widths]
        powers = f"{slope(costs[kind]):.2f} | {slope(by_width):.2f}"
        print(f"| {kind} | {dict(costs[kind])[n]:,} | {powers} | {waiting(kind, longest)} | {paths[kind][-1][1]} |")
    if options.pictures:
        options.pictures.mkdir(parents=True, exist_ok=True)
        drawn = {
            "operations": draw_lines(costs, f"Operations of one layer, d = {d}", "length n", "operations"),
            "paths": draw_lines(paths, "Layers from the first input to the last output", "length n", "layers"),
        }
        for name, picture in drawn.items():
            (options.pictures / f"{name}.svg").write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()

"""How long a training step takes on many devices, from rates that are measured on one machine.

    python benchmarks/scaling_model.py                      measure, compare with real steps, predict, draw
    python benchmarks/scaling_model.py --rates 2e14,1.5e12,5e-6,2.5e10    predict for other devices

A model of L layers, width d and V tokens has P = 12 L d² + V d parameters. A step of n tokens a device on N devices is

    matrix products       (6 P + 12 L S d) n / F              F: floating-point operations a second, S: length of a row
    passes over memory    4 (80 L d + 6 V) n / M              M: bytes a second; norms, softmax, activations, residuals
    the optimiser         28 P / M       (sharded: / N)       Adam reads four values and writes three
    all-reduce            2 (N-1)/N 4 P / W + 2 (N-1) a       one flat buffer; W: bytes a second, a: latency
    sharded (FSDP)        3 (N-1)/N 4 P / W + 3 (N-1)(L+1) a  two gathers and a reduce-scatter of each layer
                          + 40 P / M                          its copies: joined, laid out, twice; gradients parted

The sum of these is an upper bound, with nothing overlapped. A sharded step that hides all communication behind the
products takes the larger of both instead; the truth lies between.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard

from qkv.kernels.memory import keep_freed_memory
from qkv.visual.charts import draw_lines

LENGTH = 64
"""Tokens of a row, S."""
DEVICES = [1, 2, 4, 8, 16, 32, 64, 128, 256]


@dataclass(frozen=True)
class Rates:
    """Of one device and of the network between devices."""

    matrix: float
    memory: float
    latency: float
    network: float

    def shared(self, processes: int, cores: int) -> "Rates":
        """Of each of several processes that share the cores of one machine."""
        part = min(1.0, cores / processes)
        return Rates(self.matrix * part, self.memory * part, self.latency / part, self.network * part)


@dataclass(frozen=True)
class Shape:
    """The size of a model."""

    layers: int
    width: int
    vocabulary: int = 32_000

    @property
    def parameters(self) -> int:
        return 12 * self.layers * self.width**2 + self.vocabulary * self.width


SHAPES = {
    "60 M": Shape(12, 576, 16_000),
    "200 M": Shape(12, 1088),
    "1 B": Shape(24, 1792),
    "3 B": Shape(32, 2688),
    "10 B": Shape(40, 4480),
}


@dataclass(frozen=True)
class Step:
    """The parts of a step, in seconds."""

    compute: float
    optimiser: float
    network: float

    @property
    def total(self) -> float:
        return self.compute + self.optimiser + self.network

    @property
    def overlapped(self) -> float:
        return max(self.compute, self.network) + self.optimiser


def predicted(shape: Shape, tokens: int, devices: int, sharded: bool, rates: Rates) -> Step:
    """A step of `tokens` tokens on each of `devices` devices, by the formulas above."""
    size, others = shape.parameters, devices - 1
    products = (6 * size + 12 * shape.layers * LENGTH * shape.width) * tokens / rates.matrix
    passes = 4 * (80 * shape.layers * shape.width + 6 * shape.vocabulary) * tokens / rates.memory
    optimiser = 28 * size / (devices if sharded else 1) / rates.memory
    moved = 4 * size * others / devices / rates.network
    if sharded:
        network = 3 * moved + 3 * others * (shape.layers + 1) * rates.latency
        # Each gather fills a buffer and lays the weights out from it, the reduce-scatter fills another: five times
        # P values of four bytes are read and written.
        passes += 5 * 8 * size / rates.memory if others else 0.0
    else:
        network = 2 * moved + 2 * others * rates.latency
    return Step(products + passes, optimiser, network)


CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}


def best_of(act: Callable[[], object], times: int, clock: str) -> float:
    """The least seconds of a call: on the wall, or of the processor on a machine that does other things, too."""
    act()
    spent = []
    for _ in range(times):
        began = CLOCKS[clock]()
        act()
        spent.append(CLOCKS[clock]() - began)
    return min(spent)


def measured_alone(shape: Shape, tokens: int, clock: str) -> tuple[float, float]:
    """The matrix rate at the sizes of the model, and the memory rate."""
    x, w = torch.randn(tokens, shape.width), torch.randn(shape.width, 4 * shape.width)
    y = torch.randn(tokens, 4 * shape.width)
    seconds = sum(best_of(act, 7, clock) for act in (lambda: x @ w, lambda: y @ w.T, lambda: x.T @ y))
    large = torch.randn(16 << 20)
    other = torch.empty_like(large)
    copied = best_of(lambda: other.copy_(large), 5, clock)
    return 3 * 2 * tokens * 4 * shape.width**2 / seconds, 2 * 4 * large.numel() / copied


class Stack(nn.Module):
    """What is trained in the comparison: layers between an embedding and a projection with the same weights."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(shape.width, shape.width // 64, 4 * shape.width, 0.0, batch_first=True)
            for _ in range(shape.layers)
        )

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x)
        return nn.functional.cross_entropy((x @ self.embedding.weight.T).flatten(0, 1), ids.flatten())


def real_step(shape: Shape, tokens: int, sharded: bool, times: int, clock: str) -> float:
    """Seconds of a step in this process and its team."""
    torch.manual_seed(0)
    model = Stack(shape)
    if sharded:
        mesh = dist.device_mesh.init_device_mesh("cpu", (dist.get_world_size(),))
        for layer in model.layers:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
    optimiser = torch.optim.Adam(model.parameters())
    ids = torch.randint(shape.vocabulary, (tokens // LENGTH, LENGTH))
    flat = torch.zeros(0 if sharded else shape.parameters)

    def step() -> None:
        optimiser.zero_grad()
        model(ids).backward()
        if not sharded and dist.get_world_size() > 1:
            dist.all_reduce(flat)
        optimiser.step()

    return best_of(step, times, clock)


def member(shape: Shape, tokens: int, times: int, clock: str) -> None:
    """One process of a team: prints what it measured as JSON."""
    torch.set_num_threads(1)
    keep_freed_memory()  # as training does
    dist.init_process_group("gloo")
    small, large = torch.zeros(1), torch.zeros(4 << 20)
    found = {"latency": 0.0, "network": float("inf")}
    if dist.get_world_size() == 2:
        found["latency"] = best_of(lambda: dist.all_reduce(small), 50, clock) / 2
        found["network"] = 4 * large.numel() / best_of(lambda: dist.all_reduce(large), 7, clock)
    found["plain"] = real_step(shape, tokens, False, times, clock)
    if dist.get_world_size() > 1:
        found["sharded"] = real_step(shape, tokens, True, times, clock)
    if dist.get_rank() == 0:
        print(json.dumps(found), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def team(size: int, shape: Shape, tokens: int, times: int, clock: str) -> dict[str, float]:
    """What a team of processes on this machine measures."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    member_of = [sys.executable, __file__, "--member", json.dumps([shape.layers, shape.width, shape.vocabulary])]
    processes = [
        subprocess.Popen(
            [*member_of, "--tokens", str(tokens), "--times", str(times), "--clock", clock],
            stdout=subprocess.PIPE,
            env={
                **os.environ,
                "RANK": str(rank),
                "WORLD_SIZE": str(size),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "OMP_NUM_THREADS": "1",
            },
        )
        for rank in range(size)
    ]
    said = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        sys.exit("a process of the team has failed")
    found: dict[str, float] = json.loads(said[0])
    return found


def compare(tokens: int, times: int, sizes: list[int], cores: int, clock: str) -> Rates:
    """Measure the rates, and steps of teams against their prediction."""
    shape = Shape(4, 512, 8_000)
    torch.set_num_threads(1)
    keep_freed_memory()
    matrix, memory = measured_alone(shape, tokens, clock)
    teams = {size: team(size, shape, tokens, times, clock) for size in sizes}
    rates = Rates(matrix, memory, teams[2]["latency"], teams[2]["network"])
    print(f"matrix products {matrix / 1e9:.1f} GFLOP/s, memory {memory / 1e9:.1f} GB/s,", end=" ")
    print(f"network {rates.network / 1e9:.2f} GB/s, latency {rates.latency * 1e6:.0f} us")
    print(
        f"\n{clock} seconds a step, {tokens} tokens a process, {shape.parameters / 1e6:.0f} M parameters, {cores} cores"
    )
    print("processes  kind     measured  predicted  measured / predicted")
    for size, found in teams.items():
        for kind in ("plain", "sharded"):
            if kind in found:
                # Processes that share a core wait for each other, which costs none of them processor time.
                share = rates if clock == "processor" else rates.shared(size, cores)
                own = predicted(shape, tokens, size, kind == "sharded", share).total
                print(f"{size:9}  {kind:7}  {found[kind]:7.3f}s  {own:8.3f}s  {found[kind] / own:.2f}")
    return rates


def tabulate(rates: Rates, tokens: int, pictures: Path | None) -> None:
    """Speed on N devices over that on one, for each size."""
    print(f"\ntokens a second on N devices over N times those on one (%), {tokens} tokens a device")
    print("parameters  kind     " + "".join(f"{devices:>7}" for devices in DEVICES))
    lines: dict[str, list[tuple[float, float]]] = {}
    for name, shape in SHAPES.items():
        for kind in ("plain", "sharded"):
            alone = predicted(shape, tokens, 1, False, rates).total
            each = [predicted(shape, tokens, devices, kind == "sharded", rates).total for devices in DEVICES]
            shares = [100 * alone / own for own in each]
            print(f"{name:10}  {kind:7}  " + "".join(f"{share:7.1f}" for share in shares))
            if kind == "sharded":
                lines[name] = list(zip(map(float, DEVICES), shares, strict=True))
    if pictures is not None:
        drawn = draw_lines(lines, "Efficiency of sharded training", "devices", "% of linear")
        (pictures / "scaling.svg").write_text(drawn)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=1024, help="tokens a device and step")
    parser.add_argument("--times", type=int, default=5, help="steps that are timed; the fastest counts")
    parser.add_argument("--processes", default="1,2,4", help="teams that are compared with the prediction")
    parser.add_argument("--clock", choices=list(CLOCKS), default="wall")
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rates", help="matrix,memory,latency,network in place of measuring: FLOP/s, B/s, s, B/s")
    parser.add_argument("--predict-tokens", type=int, default=16_384, help="tokens a device of the predictions")
    parser.add_argument("--pictures", type=Path, help="a folder for the plot")
    parser.add_argument("--member", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.member:
        member(Shape(*json.loads(given.member)), given.tokens, given.times, given.clock)
        return
    if given.rates:
        rates = Rates(*map(float, given.rates.split(",")))
    else:
        sizes = [int(size) for size in given.processes.split(",")]
        rates = compare(given.tokens, given.times, sizes, given.cores, given.clock)
    tabulate(rates, given.predict_tokens, given.pictures)


if __name__ == "__main__":
    main()

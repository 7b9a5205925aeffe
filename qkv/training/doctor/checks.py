"""Self-tests of a device: each is a function from the device to a sentence; it raises `CheckFailed` with one."""

import math
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import torch

from qkv.config import validate
from qkv.core.devices import CPU
from qkv.core.errors import QkvError
from qkv.kernels.attention import attention
from qkv.search.beam import BeamConfig
from qkv.search.greedy import GreedyConfig
from qkv.text.special import NAMES, SPECIAL
from qkv.training.doctor.accelerated import biases, compiled, half_precision, static_shapes, windows
from qkv.training.doctor.subjects import CheckFailed, LearningModel, decoded, pairs, require_close, subject
from qkv.training.progress import SilentTrainingReporter
from qkv.training.recipe import Recipe
from qkv.training.run.folder import read_metrics
from qkv.training.step.precision import Precision
from qkv.training.trainer import Trainer

LOSS_TOLERANCE = {"fp32": 1e-4, "bf16": 3e-2, "fp16": 1e-2}
"""How far loss and gradient norm on the device may be from those in float32 on the CPU, as a fraction."""
EQUAL = 1e-5
"""How far a state may move that must not move at all: a device may add in another order."""
SECONDS = 3.0
"""How long speed is measured."""


@dataclass(frozen=True)
class Finding:
    """The outcome of one check."""

    name: str
    passed: bool
    said: str


def run_checks(device: torch.device, progress: Callable[[int, int], None] = lambda done, total: None) -> list[Finding]:
    """All of them."""
    found = list[Finding]()
    for name, check in CHECKS.items():
        progress(len(found), len(CHECKS))
        try:
            found.append(Finding(name, True, check(device)))
        except (CheckFailed, QkvError) as error:
            found.append(Finding(name, False, str(error)))
        except (RuntimeError, NotImplementedError, TypeError, ValueError) as error:
            # An operation that the device lacks is a finding, too.
            found.append(Finding(name, False, f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"))
    return found


def no_leak(device: torch.device) -> str:
    """Neither later targets nor padding reach a state, and a query without keys gives 0."""
    model, batch = subject().to(device).eval(), pairs(4, 8)
    other = batch.tgt_in.clone()
    other[:, 3:] = other[:, 3:].flip(1)
    wider = torch.nn.functional.pad(batch.src, (0, 3), value=len(NAMES))
    keep = torch.nn.functional.pad(batch.src_keep, (0, 3))
    with torch.no_grad():
        plain, later, padded = (
            model.states(*(part.to(device) for part in parts)).cpu()
            for parts in (
                (batch.src, batch.src_keep, batch.tgt_in),
                (batch.src, batch.src_keep, other),
                (wider, keep, batch.tgt_in),
            )
        )
        nothing = torch.zeros(1, 1, 2, 3, dtype=torch.bool, device=device)
        q, k, v = (torch.randn(1, 1, size, 4, device=device) for size in (2, 3, 3))
        blind = attention(q, k, v, nothing).cpu()
    require_close(later[:, :3], plain[:, :3], EQUAL, "a state depends on later targets")
    require_close(padded, plain, EQUAL, "a state depends on padding of the source")
    if not bool((blind == 0).all()):
        raise CheckFailed("a query that may attend to nothing does not give 0")
    return "later targets and padding do not reach a state; a query without keys gives 0"


def shift(device: torch.device) -> str:
    """The input is the labels moved by one place, and what was learned by heart is said again."""
    batch = pairs(4, 6)
    for row in range(len(batch)):
        labels = batch.tgt_out[row][batch.tgt_weight[row] > 0].tolist()
        given = batch.tgt_in[row][batch.tgt_weight[row] > 0].tolist()
        if given != [SPECIAL.bos, *labels[:-1]]:
            raise CheckFailed(f"row {row} reads {given} to predict {labels}")
    learner = LearningModel(subject(), Precision("fp32", device))
    first, _ = learner.learn(batch, 3e-3)
    last = min(learner.learn(batch, 3e-3)[0] for _ in range(79))
    said = decoded(learner.model.eval(), batch, GreedyConfig(max_extra=4))
    wanted = [[token for token in row if token >= len(NAMES)] for row in batch.tgt_out.tolist()]
    if said != wanted:
        raise CheckFailed(f"after 80 updates (loss {first:.2f} to {last:.2f}), {said} instead of {wanted}")
    return f"4 pairs by heart in 80 updates, loss {first:.2f} to {last:.2f} (0.69 is the least with label smoothing)"


def resume(device: torch.device) -> str:
    """A run that was stopped and resumed is the run that was not."""
    with tempfile.TemporaryDirectory(prefix="qkv-doctor-") as folder:
        rows = [row[row >= len(NAMES)].tolist() for row in pairs(40, 8).src]
        words = ["".join(chr(ord("a") + token % 26) for token in row) for row in rows]
        table = "".join(f"{word}\t{word[::-1]}\n" for word in words)
        (Path(folder) / "pairs.tsv").write_text(table, encoding="utf-8")
        straight = _trained(Path(folder), "straight", device, [6])
        resumed = _trained(Path(folder), "resumed", device, [3, 6])
    exact = device == CPU
    for one, other in zip(chain(*straight), chain(*resumed), strict=True):
        if not (one == other if exact else math.isclose(one, other, rel_tol=1e-4)):
            raise CheckFailed(f"losses and gradient norms {straight} straight and {resumed} resumed")
    return "6 updates are 3 updates, a checkpoint and 3 more" + (", bit for bit" if exact else ", to 1e-4")


def _trained(folder: Path, name: str, device: torch.device, stops: list[int]) -> list[tuple[float, float]]:
    recipe = {
        "run": str(folder / name),
        "data": {"root": str(folder), "train": {"kind": "tsv", "path": "pairs.tsv"}},
        "text": {"shared": "char"},
        "batch": {"tokens": 64},
        "model": {"d_model": 16, "d_ff": 32, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1},
        "schedule": {"kind": "constant", "peak": 1e-3},
    }
    for number, stop in enumerate(stops):
        training = {"stop_after": f"{stop}u", "device": str(device)}
        whole = validate(Recipe, {**recipe, "training": training}, "qkv doctor")
        trainer = Trainer.resume(whole) if number else Trainer(whole)
        trainer.reporter = SilentTrainingReporter()
        trainer.train()
    lines = [line for line in read_metrics(folder / name / "metrics.jsonl") if "loss" in line]
    return [(line["loss"], line["grad_norm"]) for line in lines]


def equality(device: torch.device) -> str:
    """Loss, gradient and outputs are those of the CPU."""
    batch, said = pairs(16, 12), []
    wanted = LearningModel(subject(), Precision()).learn(batch, 0.0)
    for name, tolerance in LOSS_TOLERANCE.items():
        found = LearningModel(subject(), Precision(name, device)).learn(batch, 0.0)
        off = max(abs(one - other) / abs(other) for one, other in zip(found, wanted, strict=True))
        if not off <= tolerance:
            raise CheckFailed(f"{name}: loss and norm {found}, on the CPU in float32 {wanted}: {off:.1e} apart")
        said.append(f"{name} {off:.0e} (at most {tolerance:.0e})")
    search = BeamConfig(size=4, max_extra=4)
    if decoded(subject(3).to(device).eval(), batch, search) != decoded(subject(3).eval(), batch, search):
        raise CheckFailed("beam search gives other outputs than on the CPU")
    return "loss and gradient off by " + ", ".join(said) + "; beam search gives the same outputs"


def speed(device: torch.device) -> str:
    """Training of a model of the size `tiny`, and its memory."""
    model = subject(d_model=128, d_ff=512, encoder_layers=3, decoder_layers=3)
    learner, batch = LearningModel(model, Precision("fp32", device)), pairs(100, 20)
    learner.learn(batch, 1e-4)
    began, updates = time.perf_counter(), 0
    while time.perf_counter() - began < SECONDS:
        learner.learn(batch, 1e-4)
        updates += 1
    tokens = updates * batch.num_tgt_tokens / (time.perf_counter() - began)
    memory = ""
    if device.type in ("cuda", "xpu"):
        memory = f", {torch.get_device_module(device.type).max_memory_allocated(device) / (1 << 20):,.0f} MiB at most"
    return f"{tokens:,.0f} target tokens a second in training (d_model 128, 3 + 3 layers, fp32){memory}"


CHECKS: dict[str, Callable[[torch.device], str]] = {
    "masks": no_leak,
    "shift": shift,
    "resume": resume,
    "equality": equality,
    "half": half_precision,
    "static": static_shapes,
    "windows": windows,
    "biases": biases,
    "compile": compiled,
    "speed": speed,
}

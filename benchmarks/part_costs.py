"""What does each kind of a part cost? An update, a reading and a decoded token, beside the kind that is the default.

    python benchmarks/part_costs.py [--parts positions wiring ...] [--turns 9] [--pairs 64] [--length 30] [--texts 16]

The preset tiny with one part changed at a time. "update" is a training update with --pairs pairs of --length tokens,
from the loss to the optimiser's step; "reading" is what happens to --texts sources before the first token of their
outputs, "token" a step that gives one token to each of --texts outputs, its past kept, the mean of --length steps. The
tokens are random, the weights fresh. What a kind cannot do without is added: reversible has residual pre, windows reach
8 tokens to each side, and longformer has one global token.

Times are those of the processor with one thread. The kinds of a part take turns, and the least of --turns counts, so
that other programs on the machine disturb little. The first row is the default's, in milliseconds; the others say how
many times as long it takes, and how many parameters more a model has.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch

from qkv.config.base import Kinds
from qkv.data.batch import Batch, collate
from qkv.kernels.memory import keep_freed_memory
from qkv.kernels.threads import using_threads
from qkv.layers.attention import attentions
from qkv.layers.positions import positions
from qkv.layers.residual import residuals
from qkv.models.transformer.build import build_model
from qkv.models.transformer.config import TransformerConfig
from qkv.models.transformer.model import Transformer
from qkv.models.transformer.stacks import stacks
from qkv.models.transformer.wirings import wirings
from qkv.objectives.build import build_objective
from qkv.objectives.teacher_forcing import ObjectiveConfig
from qkv.search.models import ModelSteps
from qkv.text import SPECIAL
from qkv.training.optimizers import AdamWConfig
from qkv.training.step.precision import Precision
from qkv.training.step.update import FlatGradient, Task, add_gradients

VOCAB = 8000
RATE = 1e-4
MEASURES = ["update", "reading", "token"]
PARTS: dict[str, Kinds[Any]] = {
    "positions": positions,
    "wiring": wirings,
    "stack": stacks,
    "residual": residuals,
    "encoder_attention": attentions,
}
NEEDED: dict[str, dict[str, Any]] = {
    "reversible": {"residual": "pre"},
    "truncated": {"encoder_attention": {"kind": "truncated", "left": 8, "right": 8}},
    "longformer": {"encoder_attention": {"kind": "longformer", "window": 16, "global_positions": [0]}},
}
"""What a kind cannot do without."""


class Candidate:
    """A model with one kind of a part, and what it took so far."""

    def __init__(self, settings: dict[str, Any]) -> None:
        config = TransformerConfig(preset="tiny", share_embeddings="all", **settings)
        torch.manual_seed(0)
        self.model: Transformer = build_model(config, VOCAB, VOCAB, SPECIAL.pad)
        self.objective = build_objective(ObjectiveConfig(), config.decoder, VOCAB, SPECIAL, lambda: torch.ones(VOCAB))
        self.gradient = FlatGradient(self.model)
        self.config = AdamWConfig()
        self.optimizer = self.config.build(self.model)
        self.parameters = sum(parameter.numel() for parameter in self.model.parameters())
        self.least = dict.fromkeys(MEASURES, float("inf"))

    def take_a_turn(self, batch: Batch, texts: int) -> None:
        self._note("update", lambda: self._update(batch))
        self.model.eval()
        steps = ModelSteps(self.model)
        src, keep, tokens = batch.src[:texts], batch.src_keep[:texts], batch.tgt_in[:texts].t().contiguous()
        self._note("reading", lambda: steps.start(src, keep))

        def decode() -> None:
            after: Any = state
            for row in tokens:
                _, after = steps.step(row, after)

        state = steps.start(src, keep)
        self._note("token", decode, len(tokens))

    def _update(self, batch: Batch) -> None:
        self.model.train()
        self.gradient.clear()
        task = Task(self.model, self.objective, 1, Precision())
        _, _, weight, _ = add_gradients(task, [batch], self.model.device).tolist()
        self.gradient.finish(float(self.gradient.norm()), weight, self.config.clip_norm)
        self.optimizer.step(RATE)

    def _note(self, measure: str, call: Callable[[], object], times: int = 1) -> None:
        began = time.process_time()
        call()
        self.least[measure] = min(self.least[measure], (time.process_time() - began) / times)


def random_pairs(count: int, length: int) -> Batch:
    """Pairs of `length` tokens on both sides, END among them."""
    generator = torch.Generator().manual_seed(0)
    src, tgt = (torch.randint(5, VOCAB, (count, length - 1), generator=generator).tolist() for _ in range(2))
    return collate(src, tgt, SPECIAL, SPECIAL, range(count))


def kinds_of(part: str) -> dict[str, Candidate]:
    """All kinds of a part by their labels, the default first."""
    default = TransformerConfig.model_fields[part].default.kind
    names = sorted(PARTS[part].names(), key=lambda kind: (kind != default, kind))
    return {kind: Candidate({part: kind} | NEEDED.get(kind, {})) for kind in names}


def table(part: str, candidates: dict[str, Candidate]) -> str:
    (default, base), *others = candidates.items()
    rows = [f"| `{part}` | " + " | ".join(MEASURES) + " | parameters |", "|---|" + "---:|" * (len(MEASURES) + 1)]
    cells = " | ".join(f"{1e3 * base.least[name]:.3g} ms" for name in MEASURES)
    rows.append(f"| `{default}` | {cells} | {base.parameters:,} |")
    for kind, other in others:
        cells = " | ".join(f"{other.least[name] / base.least[name]:.2f} ×" for name in MEASURES)
        rows.append(f"| `{kind}` | {cells} | {other.parameters - base.parameters:+,} |")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS), metavar="PART")
    parser.add_argument("--turns", type=int, default=9, help="so often everything is measured")
    parser.add_argument("--pairs", type=int, default=64, help="of an update")
    parser.add_argument("--length", type=int, default=30, help="tokens of a source and of a target")
    parser.add_argument("--texts", type=int, default=16, help="that are read and decoded together, --pairs at most")
    options = parser.parse_args()
    if min(options.turns, options.pairs, options.texts, options.length - 1) < 1 or options.texts > options.pairs:
        raise SystemExit("--turns, --pairs and --texts must be 1 or more, --length 2; --texts must not exceed --pairs")
    keep_freed_memory()
    batch = random_pairs(options.pairs, options.length)
    with using_threads(1):
        for part in options.parts:
            candidates = kinds_of(part)
            for _ in range(options.turns):
                for candidate in candidates.values():
                    candidate.take_a_turn(batch, options.texts)
            print(table(part, candidates), end="\n\n", flush=True)


if __name__ == "__main__":
    main()

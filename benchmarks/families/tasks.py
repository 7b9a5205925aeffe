"""Real tasks: every family at an equal number of parameters, for equal processor time or for equally many updates."""

import argparse
import json
import random
import statistics
import sys
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from training_runs import trained, write_if_other

from families.models import keys_of, size_of, width_for
from families.results import MODELS, Record, Results
from qkv.config import validate
from qkv.core.files import write_atomic
from qkv.core.progress import default_reporter
from qkv.data.batch import Batch, collate
from qkv.evaluation.compare import Comparison, compare_outputs
from qkv.evaluation.files import EvaluationSet, read_evaluation_set, read_outputs
from qkv.evaluation.metrics.registry import choose_metrics
from qkv.evaluation.systems import decode_outputs
from qkv.models.base import Model
from qkv.models.kinds import models
from qkv.objectives.teacher_forcing import ObjectiveConfig
from qkv.text import SPECIAL, TextConfig, TokenizerPair
from qkv.training.optimizers import AdamWConfig

Pairs = list[tuple[str, str]]
DEV = 500
"""Validation pairs, or a tenth of all if that is less."""
BEAM = 4


@dataclass(frozen=True)
class Task:
    """Pairs and how they are learned."""

    name: str
    folder: Path
    """With train, dev and test; its name says what is in them."""
    metric: str
    text: dict[str, Any]
    tokens: int
    dropout: float
    families: list[str]
    language: str | None = None
    """Of the targets, for a metric that needs it."""

    def test_set(self) -> EvaluationSet:
        return read_evaluation_set([], None, self.folder / "test")

    def tokenizers(self) -> TokenizerPair:
        pairs = _read(self.folder / "train")
        config = validate(TextConfig, self.text, self.name)
        return config.train(lambda: [src for src, _ in pairs], lambda: [tgt for _, tgt in pairs])


def tasks(options: argparse.Namespace) -> list[Task]:
    """Those whose data are given, cut to --pairs and --sources and written below --out."""
    found, letters = [], {"src": "char", "tgt": "whitespace"}
    for name, folder, pattern in (
        ("cmudict", options.cmudict, "g014b2b.{}"),
        (f"sigmorphon-{options.language}", options.sigmorphon, f"{options.language}_{{}}.tsv"),
    ):
        if folder:
            splits = [_read(folder / pattern.format(part)) for part in ("train", "test")]
            written = _write(options, name, *splits)
            found.append(Task(name, written, "g2p_wer", letters, 1024, 0.1, options.families))
    if options.multi30k:
        splits = [_parallel(options.multi30k, name) for name in ("train", "test_2016_flickr")]
        written = _write(options, "multi30k", *splits)
        pieces = {"kind": "sentencepiece", "model": "bpe", "vocab_size": 4000, "normalize": {"lowercase": True}}
        families = [family for family in options.families if family != "ByteNet"]
        if families != options.families:
            print("multi30k: ByteNet is left out: it sees the source only column by column, in order", file=sys.stderr)
        # Outputs are in lower case, and so is what is compared.
        found.append(Task("multi30k", written, "bleu_tok_lc", {"shared": pieces}, 1024, 0.1, families, "de"))
    return found


def _read(path: Path) -> Pairs:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [(src, tgt) for src, tgt in (line.split("\t")[:2] for line in lines)]


def _parallel(folder: Path, name: str) -> Pairs:
    sides = [(folder / f"{name}.{language}").read_text(encoding="utf-8").splitlines() for language in ("en", "de")]
    return list(zip(*sides, strict=True))


def _write(options: argparse.Namespace, name: str, train: Pairs, test: Pairs) -> Path:
    """Draw the pairs and write them to a folder that is named after the name, the sizes, and a hash of the texts."""
    draw = random.Random(1)
    known = {src for src, _ in test}
    train = [pair for pair in train if pair[0] not in known]
    draw.shuffle(train)
    draw.shuffle(test)
    dev = min(DEV, len(train) // 10)
    parts = {"train": train[dev:][: options.pairs], "dev": train[:dev], "test": test[: options.sources]}
    content = f"{zlib.crc32(json.dumps(parts).encode()):08x}"
    folder = Path(options.out, "data", f"{name}-{len(parts['train'])}-{len(parts['test'])}-{content}")
    folder.mkdir(parents=True, exist_ok=True)
    for part, pairs in parts.items():
        write_if_other(folder / part, [f"{src}\t{tgt}" for src, tgt in pairs])
    return folder


def speeds(task: Task, widths: dict[str, int], options: argparse.Namespace, results: Results) -> dict[str, Record]:
    """Processor seconds of an update, and target tokens a second: in turns, the median of --rounds."""
    key = {"part": "speed", "data": task.folder.name, "parameters": options.parameters, "rounds": options.rounds}
    found = {family: results.find({**key, "family": family}) for family in task.families}
    missing = [family for family, record in found.items() if record is None]
    if missing:
        tokenizers, taken = task.tokenizers(), dict[str, list[float]]()
        batches = _batches(task, tokenizers, options.rounds)
        steps = {family: _updater(task, family, widths[family], tokenizers) for family in missing}
        for batch in [batches[0], *batches]:
            for family, step in steps.items():
                began = time.process_time()
                step(batch)
                taken.setdefault(family, []).append(time.process_time() - began)
        tokens = statistics.mean(float(batch.tgt_weight.sum()) for batch in batches)
        for family, seconds in taken.items():
            each = statistics.median(seconds[1:])
            found[family] = results.add({**key, "family": family}, seconds=each, tokens_per_second=tokens / each)
    return {family: record for family, record in found.items() if record is not None}


def _batches(task: Task, tokenizers: TokenizerPair, count: int) -> list[Batch]:
    pairs = sorted(_read(task.folder / "train"), key=lambda pair: len(pair[0]))
    batches = []
    for number in range(count):
        first = (2 * number + 1) * len(pairs) // (2 * count)
        src, tgt = (tokenizers.src, tokenizers.tgt)
        some = pairs[first : first + 256]
        ids = list(zip(src.encode_batch([s for s, _ in some]), tgt.encode_batch([t for _, t in some]), strict=True))
        longest = max(max(len(one), len(other)) for one, other in ids) + 1
        chosen = ids[: max(1, task.tokens // longest)]
        batches.append(
            collate([one for one, _ in chosen], [other for _, other in chosen], SPECIAL, SPECIAL, range(len(chosen)))
        )
    return batches


def _updater(task: Task, family: str, d_model: int, tokenizers: TokenizerPair) -> Any:
    torch.manual_seed(1)
    keys = keys_of(family, d_model, task.dropout)
    model: Model = validate(models[keys["kind"]], keys, family).build(tokenizers).train()
    size = len(tokenizers.tgt)
    teacher = ObjectiveConfig().build(size, SPECIAL, lambda: torch.ones(size))
    optimizer = AdamWConfig().build(model)

    def step(batch: Batch) -> None:
        model.zero_grad()
        report = teacher.training_loss(model, batch, 1)
        (report.sum / report.weight).backward()
        optimizer.step(1e-3)

    return step


def run_task(task: Task, options: argparse.Namespace, results: Results) -> None:
    """Train and decode every family for each budget; what is finished is left as it is."""
    tokenizers = task.tokenizers()
    widths = {family: width_for(family, options.parameters, tokenizers) for family in task.families}
    rates = speeds(task, widths, options, results)
    for budget in options.budgets:
        for family in task.families:
            updates = int(options.updates)
            if budget == "time":
                updates = max(1, round(options.seconds / rates[family]["seconds"]))
            key = result_key(task, budget, family, options)
            if results.find(key) is None:
                results.add(
                    key,
                    size=size_of(family, widths[family], tokenizers),
                    tokens_per_second=rates[family]["tokens_per_second"],
                    **_train_and_decode(task, family, widths[family], updates, options, tokenizers),
                )


def task_key(task: Task, budget: str, options: argparse.Namespace) -> Record:
    """What the results of all families depend on; the hash in the name of the data stands for what was drawn."""
    return {
        "part": "task",
        "data": task.folder.name,
        "budget": budget,
        "amount": options.seconds if budget == "time" else options.updates,
        "parameters": options.parameters,
        "rounds": options.rounds,
    }


def result_key(task: Task, budget: str, family: str, options: argparse.Namespace) -> Record:
    """All that the result of a family depends on."""
    return task_key(task, budget, options) | {"family": family, "rate": rate_of(family, options)}


def rate_of(family: str, options: argparse.Namespace) -> float:
    """Its highest learning rate."""
    return float(dict(options.rates).get(family, options.rate))


def _run_name(task: Task, family: str, updates: int, options: argparse.Namespace) -> str:
    """All that a run depends on."""
    model = family.replace(", ", "-").replace(" ", "-")
    return f"{task.folder.name}-{model}-{options.parameters}-rate{rate_of(family, options)}-{updates}u-models{MODELS}"


def _train_and_decode(
    task: Task, family: str, d_model: int, updates: int, options: argparse.Namespace, tokens: TokenizerPair
) -> Record:
    data = {part: {"kind": "tsv", "path": part} for part in ("train", "dev", "test")}
    keys = {
        "data": {"root": str(task.folder.resolve()), **data},
        "text": task.text,
        "batch": {"tokens": task.tokens},
        "model": keys_of(family, d_model, task.dropout),
        "schedule": {"kind": "linear", "peak": rate_of(family, options), "warmup": max(1, min(200, updates // 5))},
        "training": {"stop_after": f"{updates}u", "threads": 1},
        "validation": {"every": f"{max(1, updates // 4)}u"},
    }
    run = trained(options.out, _run_name(task, family, updates, options), keys)
    reporter = default_reporter()
    began = time.process_time()
    try:
        outputs = decode_outputs([run.best], task.test_set(), [], BEAM, "torch", reporter).texts
    finally:
        reporter.close()
    seconds = time.process_time() - began
    write_atomic(run.path / "test.out", "".join(line + "\n" for line in outputs))
    decoded = sum(len(ids) + 1 for ids in tokens.tgt.encode_batch(outputs))
    return {"updates": updates, "d_model": d_model, "run": run.path.name, "decoded_per_second": decoded / seconds}


def measured(task: Task, budget: str, options: argparse.Namespace, results: Results) -> dict[str, Record]:
    """The results of those families that have one."""
    found = {family: results.find(result_key(task, budget, family, options)) for family in task.families}
    return {family: record for family, record in found.items() if record is not None}


def comparison(task: Task, found: Mapping[str, Record], options: argparse.Namespace) -> Comparison | None:
    """Every family with a result against the first one; None: this one or all others have none."""
    test = task.test_set()
    systems: dict[str, Sequence[str]] = {
        family: read_outputs(options.out / "runs" / record["run"] / "test.out", test)
        for family, record in found.items()
    }
    if len(systems) < 2 or task.families[0] not in systems:
        return None
    return compare_outputs(systems, test, choose_metrics([task.metric], task.language), default_reporter(quiet=2.0))

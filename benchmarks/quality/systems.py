"""The two systems: each trains for a time, keeps a checkpoint every so often, and says how good each of them is.

Only the seconds of training updates count, for both: not start-up, validation, or the writing of checkpoints.
"""

import json
import math
import shutil
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from peers.configs import eole_config
from peers.launch import launch
from quality.tasks import Task
from training_runs import train_or_resume

from qkv.training.run.folder import RunFolder

PROBE = Path(__file__).parent.parent / "peers" / "probe.py"
PEAK, WARMUP = 3e-3, 800
"""eole's learning rate: what our recipe with Adam had, falling by the inverse square root as its tutorials do."""


class Point(NamedTuple):
    """The dev score after so much training."""

    minutes: float
    update: int
    score: float


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def train_ours(task: Task, work: Path, minutes: float, seed: int, overrides: list[str]) -> list[Point]:
    """Our recipe, with a learning rate that reaches zero when the time is up; dev outputs by beam 5."""
    run = RunFolder(work / f"qkv-seed{seed}")
    metric = task.metric
    settings = [
        *task.settings,
        f"seed={seed}",
        f"training.stop_after={minutes}m",
        f"validation.every={task.every}u",
        f"validation.metrics=[{metric}]",
        f"validation.best={metric}",
        "validation.search={kind: beam, size: 5}",
        *overrides,
    ]
    train_or_resume(run, task.recipe, settings)
    written = lines_of(run.path / "metrics.jsonl")
    updates = [line for line in written if "seconds" in line]
    spent = dict(
        zip((line["update"] for line in updates), accumulate(line["seconds"] for line in updates), strict=True)
    )
    return [
        Point(spent[line["validation"]] / 60, line["validation"], line[metric])
        for line in written
        if "validation" in line and metric in line
    ]


def train_eole(python: Path, task: Task, work: Path, minutes: float, seed: int) -> list[Point]:
    """eole's own command under a probe that counts, then `eole predict` with beam 5 for every checkpoint."""
    run = work / f"eole-seed{seed}"
    run.mkdir(parents=True, exist_ok=True)
    updates = run / "updates.jsonl"
    if sum(line["seconds"] for line in lines_of(updates)) < 60 * minutes:
        config = eole_task_config(task, run, seed)
        done = newest_checkpoint(run / "model")
        if done:
            # What came after the checkpoint is trained again.
            kept = [json.dumps(line) + "\n" for line in lines_of(updates) if line["update"] <= done]
            updates.write_text("".join(kept), encoding="utf-8")
            config["training"]["train_from"] = str(run / "model" / f"step_{done}")
        else:
            updates.unlink(missing_ok=True)
            shutil.rmtree(run / "model", ignore_errors=True)
        (run / "config.yaml").write_text(json.dumps(config, indent=2), encoding="utf-8")
        stop = [f"{60 * minutes}", f"{task.every}"]
        launch([str(python), str(PROBE), "eole", str(run / "config.yaml"), str(updates), *stop], run / "log.txt")
    return score_checkpoints(python, task, run)


def score_checkpoints(python: Path, task: Task, run: Path) -> list[Point]:
    spent = dict(enumerate(accumulate(line["seconds"] for line in lines_of(run / "updates.jsonl")), start=1))
    scores = {line["update"]: line["score"] for line in lines_of(run / "scores.jsonl")}
    for update in checkpoints(run / "model"):
        if update in scores:
            continue
        outputs = run / f"dev.{update}.txt"
        where = ["-model_path", str(run / "model" / f"step_{update}"), "-src", str(task.corpus.dev_src)]
        how = ["-beam_size", "5", "-batch_size", "64"]
        eole = str(python.with_name("eole"))
        launch([eole, "predict", *where, "-output", str(outputs), *how], run / "predict.txt")
        scores[update] = task.score(outputs.read_text(encoding="utf-8").splitlines())
        with (run / "scores.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps({"update": update, "score": scores[update]}) + "\n")
    return [Point(spent[update] / 60, update, score) for update, score in sorted(scores.items())]


def checkpoints(folder: Path) -> list[int]:
    found = (path.name.removeprefix("step_") for path in folder.glob("step_*") if (path / "vocab.json").exists())
    return sorted(int(number) for number in found)


def newest_checkpoint(folder: Path) -> int:
    return max(checkpoints(folder), default=0)


def eole_task_config(task: Task, run: Path, seed: int) -> dict[str, Any]:
    """peers/configs.py with this task's sizes and data, and a schedule."""
    sizes, corpus = task.sizes, task.corpus
    config = eole_config(corpus.train_src.parent, run, updates=1_000_000)
    shared = len(corpus.vocabularies) == 1
    training = {
        "save_checkpoint_steps": task.every,
        "keep_checkpoint": -1,
        "batch_size": sizes.batch_tokens,
        "dropout": [sizes.dropout],
        # Its noam schedule is learning_rate / sqrt(d_model) x min(step^-1/2, step x warm-up^-3/2).
        "decay_method": "noam",
        "warmup_steps": WARMUP,
        "learning_rate": PEAK * math.sqrt(sizes.d_model * WARMUP),
    }
    model = {
        "layers": sizes.layers,
        "hidden_size": sizes.d_model,
        "transformer_ff": sizes.d_ff,
        "share_embeddings": shared,
        # Sinusoidal: its rotary positions fail in an encoder-decoder (eole 0.6.4).
        "embeddings": {"word_vec_size": sizes.d_model, "position_encoding_type": "SinusoidalInterleaved"},
    }
    corpora = {"path_src": str(corpus.train_src), "path_tgt": str(corpus.train_tgt), "transforms": []}
    vocabularies = dict(zip(("src_vocab", "tgt_vocab"), map(str, corpus.vocabularies), strict=False))
    return {
        **config,
        "seed": seed,
        "share_vocab": shared,
        **vocabularies,
        "data": {"train": corpora},
        "training": {**config["training"], **training},
        "model": {**config["model"], **model},
    }

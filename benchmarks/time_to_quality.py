"""Time to quality: the minutes of training until the dev score is reached, ours against eole's Transformer.

    python3 -m venv eole && eole/bin/pip install torch==2.13.0 eole==0.6.4 aiohttp
    python benchmarks/time_to_quality.py multi30k --data DIR/multi30k --minutes 90 --eole-python eole/bin/python
    python benchmarks/time_to_quality.py cmudict --data DIR/cmudict-g014b2b --minutes 90 --eole-python eole/bin/python

Both have the same training pairs, the same dev pairs, models of the same size and all cores; dev outputs come from
beam search with 5 hypotheses and are scored by one scorer (bleu_tok_lc, g2p_wer). Ours follows its packaged recipe,
whose learning rate falls to zero when the time is up; eole has sinusoidal positions, Adam and the paper's schedule,
which has no end. Only training counts: the seconds of updates, not start-up, validation or checkpoints. A score is
taken every two epochs (Multi30k) or every epoch, or after --every updates; a mark is reached at the first score that is
as good.

What is there is not done again: training is resumed, and a checkpoint is scored once. Nothing else may run meanwhile.
With --together the systems train at the same time, each on its share of the cores: two then take no longer than one,
and whatever slows the machine down slows both.
Words behind `--` are overrides of our recipe: `-- model.dropout=0.3`.

Prints a table, writes WORK/TASK/points.json, and with --plot FILE draws the curves (.svg, .png or .pdf).
"""

import argparse
import dataclasses
import functools
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from quality.systems import Point, train_eole, train_ours
from quality.tasks import TASKS, Task

Curves = dict[str, list[Point]]


def minutes_to(points: Sequence[Point], task: Task, mark: float) -> float | None:
    """When the score was first as good as `mark`."""
    return next((point.minutes for point in points if task.reached(point.score, mark)), None)


def table(curves: Curves, task: Task) -> str:
    """A row for each mark, in Markdown."""
    names = list(curves)
    rows = [["dev " + task.metric, *names, *(f"{name} / {names[0]}" for name in names[1:])]]
    rows.append(["---"] * len(rows[0]))
    for mark in task.marks:
        times = [minutes_to(curves[name], task, mark) for name in names]
        first = times[0]
        ratios = [f"{other / first:.2f}" if first and other else "" for other in times[1:]]
        rows.append([f"{mark:g}", *(f"{each:.1f} min" if each else "not reached" for each in times), *ratios])
    best = max if task.marks[0] < task.marks[-1] else min
    at = [best(points, key=lambda point: point.score) for points in curves.values()]
    rows.append(["best", *(f"{point.score:.2f} at {point.minutes:.1f} min" for point in at), *[""] * (len(names) - 1)])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def plot(curves: Curves, task: Task, path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
    for name, points in curves.items():
        axes.plot([point.minutes for point in points], [point.score for point in points], marker=".", label=name)
    for mark in task.marks:
        axes.axhline(mark, color="grey", linewidth=0.5, linestyle=":")
    axes.set(xlabel="minutes of training", ylabel=f"dev {task.metric}")
    axes.legend()
    figure.savefig(path)


def train_together(systems: Mapping[str, Callable[[], list[Point]]]) -> Curves:
    """All at once, each with as many cores of its own as the others have."""
    cores = sorted(os.sched_getaffinity(0))
    share = len(cores) // len(systems)
    if not share:
        raise SystemExit(f"--together: {len(systems)} systems need as many cores, here are {len(cores)}; leave it out")

    def train_on(mine: Sequence[int], train: Callable[[], list[Point]]) -> list[Point]:
        # Of this thread; the processes that it starts inherit them.
        os.sched_setaffinity(0, mine)
        return train()

    with ThreadPoolExecutor(len(systems)) as pool:
        shares = [cores[share * index : share * (index + 1)] for index in range(len(systems))]
        running = {
            name: pool.submit(train_on, mine, train)
            for mine, (name, train) in zip(shares, systems.items(), strict=True)
        }
        return {name: future.result() for name, future in running.items()}


def parse_options(words: Sequence[str]) -> argparse.Namespace:
    words, overrides = (words[: words.index("--")], words[words.index("--") + 1 :]) if "--" in words else (words, [])
    parser = argparse.ArgumentParser(description="Minutes of training until a dev score is reached.")
    parser.add_argument("task", choices=list(TASKS))
    parser.add_argument("--data", type=Path, required=True, help="folder of the corpus")
    parser.add_argument("--minutes", type=float, default=90, help="of training for each system")
    parser.add_argument("--every", type=int, help="updates between two scores")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--eole-python", type=Path, help="Python of the environment with eole; left out without it")
    parser.add_argument("--together", action="store_true", help="train all at the same time, each on its own cores")
    parser.add_argument("--work", type=Path, default=Path("runs/time_to_quality"), help="folder for data and runs")
    parser.add_argument("--plot", type=Path, help="draw the curves into this file")
    return parser.parse_args(words, argparse.Namespace(overrides=list(overrides)))


def main() -> None:
    options = parse_options(sys.argv[1:])
    work = options.work.resolve() / options.task
    task = TASKS[options.task](options.data.resolve(), work / "data")
    task = dataclasses.replace(task, every=options.every or task.every)
    minutes = options.minutes
    systems: dict[str, Callable[[], list[Point]]] = {
        f"qkv, seed {seed}": functools.partial(train_ours, task, work, minutes, seed, options.overrides)
        for seed in options.seeds
    }
    for seed in options.seeds if options.eole_python else []:
        python = options.eole_python.absolute()
        systems[f"eole, seed {seed}"] = functools.partial(train_eole, python, task, work, minutes, seed)
    curves: Curves = train_together(systems) if options.together else {name: train() for name, train in systems.items()}
    (work / "points.json").write_text(json.dumps(curves, indent=1) + "\n", encoding="utf-8")
    print(table(curves, task))
    if options.plot:
        plot(curves, task, options.plot)


if __name__ == "__main__":
    main()

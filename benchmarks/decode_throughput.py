"""Decoding speed: ours in PyTorch, ours through CTranslate2, CTranslate2 alone, and `generate` of Hugging Face.

    pip install 'qkv[fast,hf]'
    python benchmarks/decode_throughput.py

All run the same weights, written by `qkv export`: the presets `tiny` and `base`, random, with 8,000 tokens and one
shared embedding matrix. A source has 15 tokens, an output too: END's vector is zero, so that it is never among the
best, and every output is cut at 15. All do the same 15 steps, which is checked, and how many outputs agree with ours is
reported (with random weights there are near ties). Greedy search and a beam of 5; one sentence after another, and
batches of 32. All get texts and give texts; the words of a text are its tokens.

Each program has a process of its own. PyTorch's number of threads is what suits the cell: ours and Hugging Face run
with one thread and with one for each core, and the faster is taken. CTranslate2 has a worker with one thread for each
core, and, to see whether that would pay, one worker with a thread for each core (`raw 1xN`).

The programs take turns and a ratio is taken within each turn, so that a machine that slows down slows all of them.
Nothing else may run meanwhile: what others use is measured before, recorded, and warned of. `--quick` only shows that
it works.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from random_models import LENGTH, random_model, random_texts
from train_throughput import MAX_BUSY, busy_share

BATCH = 32
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
CELLS = [(beam, batch) for beam in (1, 5) for batch in (1, BATCH)]
SENTENCES = {"tiny": {1: 40, BATCH: 8 * BATCH}, "base": {1: 8, BATCH: 4 * BATCH}}
Decode = Callable[[int, int, list[str]], list[str]]
"""Beam size, batch size and texts to outputs."""


def make(preset: str, folder: Path) -> None:
    """The model in all three forms."""
    from qkv.export.ctranslate2 import export_ctranslate2
    from qkv.export.huggingface import export_huggingface
    from qkv.models.saved.folder import save_model
    from qkv.models.transformer.config import TransformerConfig

    saved = random_model(TransformerConfig(preset=preset))
    save_model(folder / "ours", saved)
    export_huggingface(saved, folder / "hf")
    for quantization in (None, "int8"):
        export_ctranslate2(saved, folder / f"ct2-{quantization}", quantization)


def ours(folder: Path, engine: str) -> Decode:
    from qkv.search.base import SearchConfig
    from qkv.search.beam import BeamConfig
    from qkv.search.greedy import GreedyConfig
    from qkv.translate.translator import Translator

    made: dict[tuple[int, int], Translator] = {}

    def decode(beam: int, batch: int, lines: list[str]) -> list[str]:
        if (beam, batch) not in made:
            search: SearchConfig = (
                BeamConfig(size=beam, max_length=LENGTH) if beam > 1 else GreedyConfig(max_length=LENGTH)
            )
            made[beam, batch] = Translator(folder, engine, search, batch_tokens=batch * LENGTH * beam)
        translator = made[beam, batch]
        parts = [lines] if batch > 1 else [[line] for line in lines]
        return [found.text for part in parts for found in translator.translate(part, token_scores=False)]

    return decode


def raw(folder: Path, workers: int) -> Decode:
    import ctranslate2

    translator = ctranslate2.Translator(str(folder), inter_threads=workers, intra_threads=CORES // workers)

    def decode(beam: int, batch: int, lines: list[str]) -> list[str]:
        tokens = [[*line.split(), "</s>"] for line in lines]
        found = []
        for part in [tokens] if batch > 1 else [[own] for own in tokens]:
            found += translator.translate_batch(
                part,
                max_batch_size=batch,
                beam_size=beam,
                max_decoding_length=LENGTH,
                min_decoding_length=0,
                max_input_length=0,
                return_scores=True,
            )
        return [" ".join(result.hypotheses[0]) for result in found]

    return decode


def hugging_face(folder: Path) -> Decode:
    import torch
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # transformers leaves it without types
    model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)

    @torch.inference_mode()
    def decode(beam: int, batch: int, lines: list[str]) -> list[str]:
        found: list[str] = []
        for first in range(0, len(lines), batch):
            inputs = tokenizer(lines[first : first + batch], return_tensors="pt", return_token_type_ids=False)
            ids = model.generate(**inputs, num_beams=beam, do_sample=False, max_new_tokens=LENGTH, max_length=None)
            found += tokenizer.batch_decode(ids, skip_special_tokens=True)
        return found

    return decode


PROGRAMS: dict[str, Callable[[Path], Decode]] = {
    "torch": lambda folder: ours(folder / "ours", "torch"),
    "hf": lambda folder: hugging_face(folder / "hf"),
    "ct2": lambda folder: ours(folder / "ct2-None", "ctranslate2"),
    "raw": lambda folder: raw(folder / "ct2-None", CORES),
    "raw 1xN": lambda folder: raw(folder / "ct2-None", 1),
    "ct2 int8": lambda folder: ours(folder / "ct2-int8", "ctranslate2"),
    "raw int8": lambda folder: raw(folder / "ct2-int8", CORES),
}
SYSTEMS = [("torch", 1), ("torch", CORES), ("hf", 1), ("hf", CORES)] + [
    (name, 1) for name in PROGRAMS if name not in ("torch", "hf")
]
"""Programs and the threads of PyTorch (those of CTranslate2 are the program's own)."""


def serve(program: str, folder: Path) -> None:
    """In the process of one program: a cell a line on stdin, seconds and outputs on stdout."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    decode = PROGRAMS[program](folder)
    for line in sys.stdin:
        beam, batch, count, seed = json.loads(line)
        lines = random_texts(count, seed)
        decode(beam, batch, lines[: 2 * batch])  # warm
        began = time.perf_counter()
        found = decode(beam, batch, lines)
        seconds = time.perf_counter() - began
        print(json.dumps({"seconds": seconds, "outputs": found}), file=answers, flush=True)


@contextmanager
def processes(folder: Path, chosen: list[tuple[str, int]]) -> Iterator[dict[tuple[str, int], Any]]:
    """One for each program; they wait without using the processor."""
    started = {
        (program, threads): subprocess.Popen(
            [sys.executable, __file__, "--serve", program, "--folder", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": str(threads)},
        )
        for program, threads in chosen
    }
    try:
        yield started
    finally:
        for process in started.values():
            process.kill()
            process.wait()


def ask(process: Any, cell: tuple[int, int], count: int, seed: int) -> dict[str, Any]:
    process.stdin.write(json.dumps([*cell, count, seed]) + "\n")
    process.stdin.flush()
    line = process.stdout.readline()
    if not line:
        raise SystemExit("a program ended without an answer; its message is above")
    answer: dict[str, Any] = json.loads(line)
    wrong = [text for text in answer["outputs"] if len(text.split()) != LENGTH]
    if wrong or len(answer["outputs"]) != count:
        raise SystemExit(f"{process.args}: not {count} outputs of {LENGTH} tokens: {wrong[:1]}")
    return answer


def measure(preset: str, folder: Path, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A line for each cell and system."""
    chosen = [system for system in SYSTEMS if not options.only or system[0] in options.only]
    with processes(folder, chosen) as started:
        for cell in CELLS:
            count = SENTENCES[preset][cell[1]] // (4 if options.quick else 1)
            seconds: dict[tuple[str, int], list[float]] = {system: [] for system in chosen}
            outputs: dict[tuple[str, int], list[str]] = {}
            for turn in range(options.repeats):
                for system, process in started.items():
                    answer = ask(process, cell, count, seed=turn)
                    seconds[system].append(answer["seconds"])
                    outputs[system] = answer["outputs"]
                print(f"{preset} beam {cell[0]} batch {cell[1]}: turn {turn + 1}/{options.repeats}", file=sys.stderr)
            yield from lines_of(preset, cell, count, best_threads(seconds), outputs)


def best_threads(seconds: dict[tuple[str, int], list[float]]) -> dict[tuple[str, int], list[float]]:
    """Of each program the number of threads with which it was fastest."""
    best: dict[str, tuple[str, int]] = {}
    for system, values in seconds.items():
        known = best.get(system[0])
        if known is None or statistics.median(values) < statistics.median(seconds[known]):
            best[system[0]] = system
    return {system: seconds[system] for system in best.values()}


def lines_of(
    preset: str,
    cell: tuple[int, int],
    count: int,
    seconds: dict[tuple[str, int], list[float]],
    outputs: dict[tuple[str, int], list[str]],
) -> Iterator[dict[str, Any]]:
    named = {program: values for (program, _), values in seconds.items()}
    for (program, threads), values in seconds.items():
        speeds = [count * LENGTH / value for value in values]
        line = {"preset": preset, "beam": cell[0], "batch": cell[1], "system": program}
        if program in ("torch", "hf"):
            line["threads"] = threads
        line |= {"tokens_per_second": statistics.median(speeds), "all": speeds}
        peers = {"hf": "hf", "raw": "raw int8" if program.endswith("int8") else "raw"}
        for short, peer in peers.items():
            if peer in named and peer != program:
                ratios = [theirs / own for theirs, own in zip(named[peer], values, strict=True)]
                line[f"over_{short}"] = [statistics.median(ratios), min(ratios), max(ratios)]
        reference = next((outputs[system] for system in seconds if system[0] == "torch"), None)
        if reference:
            pairs = zip(reference, outputs[program, threads], strict=True)
            line["agree"] = sum(one == two for one, two in pairs) / len(reference)
        yield line


def table(lines: list[dict[str, Any]]) -> None:
    head = f"{'model':6}{'search':8}{'batch':>6} {'system':10}{'threads':>8}{'out tok/s':>11}"
    print(f"\n{head}{'x Hugging Face':>24}{'x raw CTranslate2':>24}{'agree':>8}")
    for line in lines:
        search = "greedy" if line["beam"] == 1 else f"beam {line['beam']}"
        cells = f"{line['preset']:6}{search:8}{line['batch']:6} {line['system']:10}{line.get('threads', ''):>8}"
        cells += f"{line['tokens_per_second']:11,.0f}"
        for key in ("over_hf", "over_raw"):
            ratio = line.get(key)
            cells += f"{f'{ratio[0]:.2f} ({ratio[1]:.2f}-{ratio[2]:.2f})' if ratio else '':>24}"
        print(cells + (f"{line['agree']:8.0%}" if "agree" in line else ""))


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Decoding speed of ours, CTranslate2 and Hugging Face.")
    parser.add_argument("--presets", nargs="+", choices=list(SENTENCES), default=list(SENTENCES))
    parser.add_argument("--only", nargs="+", choices=list(PROGRAMS), help="run these programs only")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one turn with few sentences, tiny only")
    parser.add_argument("--output", type=Path, default=Path("runs/decode_throughput.jsonl"))
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    options = parse_options()
    if options.serve:
        serve(options.serve, options.folder)
        return
    if options.quick:
        options.presets, options.repeats = ["tiny"], 1
    busy = busy_share(1.0 if options.quick else 5.0)
    lines = []
    for preset in options.presets:
        with tempfile.TemporaryDirectory() as folder:
            make(preset, Path(folder))
            lines += list(measure(preset, Path(folder), options))
    about = {
        "benchmark": "decode_throughput",
        "cores": CORES,
        "machine": platform.platform(),
        "versions": {name: version(name) for name in ("torch", "ctranslate2", "transformers")},
        "busy_share_of_others": busy,
    }
    table(lines)
    if busy is not None and busy > MAX_BUSY:
        print(f"DO NOT QUOTE THIS: others used {busy:.0%} of the machine; run it again when it is idle")
    options.output.parent.mkdir(parents=True, exist_ok=True)
    with options.output.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(about | line) + "\n" for line in lines)
    print(f"written to {options.output}")


if __name__ == "__main__":
    main()

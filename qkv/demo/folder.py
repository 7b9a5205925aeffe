"""The folder of the demonstration: data, run and results."""

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import with_config

from qkv.core.errors import CorruptFolder, QkvError, UsageError
from qkv.core.files import read_manifest, write_atomic
from qkv.core.outputs import claim_folder, mark_folder, read_marker
from qkv.core.progress import Reporter
from qkv.core.reading import STRICT, read_record
from qkv.demo.dictionary import read_cmudict, write_parts
from qkv.demo.recipe import demo_recipe
from qkv.evaluation.evaluate import evaluate_outputs
from qkv.evaluation.files import EvaluationSet, read_table
from qkv.evaluation.metrics.registry import choose_metrics
from qkv.search.beam import BeamConfig
from qkv.search.length_penalty import NoLengthPenalty
from qkv.training.run.checkpoint import list_checkpoints, newest_good, read_state
from qkv.training.run.folder import RunFolder
from qkv.training.run.state import TrainState
from qkv.training.trainer import Trainer
from qkv.translate.translator import Translator

WHAT = "demonstration"
NAMES = ("train.tsv", "dev.tsv", "test.tsv", "run", "results.json")
SEARCH = BeamConfig(size=5, length_penalty=NoLengthPenalty())
"""By probability alone, so that what is shown as more probable comes first."""

MEASURED = ["g2p_wer", "per"]
"""What papers call WER and PER."""


@with_config(STRICT)
@dataclass(frozen=True)
class Figure:
    """A score, and where 95 of 100 test sets of this kind would have it."""

    score: float
    low: float
    high: float


@with_config(STRICT)
@dataclass(frozen=True)
class Results:
    """The results of the demonstration; numbers only, stored as JSON."""

    model: str
    """The checksum of the model that was measured."""
    minutes: float
    updates: int
    learned: int
    """Words that the model learned from."""
    held_out: int
    """Words that it was measured on."""
    scores: dict[str, Figure]


class DemoFolder:
    """Where everything of the demonstration is.

    train.tsv, dev.tsv, test.tsv   the words
    run/                           the run that learns from them; its best model is in run/best
    results.json                   how good that model is on the words of test.tsv
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.run = RunFolder(path / "run")
        self._results = path / "results.json"

    def forget(self) -> None:
        """Remove the run and its results, unless another process is training there."""
        if not self.path.exists():
            return
        self._claim()
        if self.run.path.exists():
            with self.run.locked():
                shutil.rmtree(self.run.path)
        self._results.unlink(missing_ok=True)

    def _claim(self) -> None:
        """Make the folder, or make sure that it is the demonstration's."""
        if not read_marker(self.path) and self._was_begun_before_markers():
            mark_folder(self.path, WHAT, NAMES)
        claim_folder(self.path, WHAT, NAMES, "choose a new folder with --folder")

    def _was_begun_before_markers(self) -> bool:
        there = {path.name for path in self.path.iterdir()} if self.path.is_dir() else set()
        return "run" in there and there <= set(NAMES) and self.run.is_used()

    def trainer(self, minutes: float, words: int | None) -> Trainer:
        """Start a new run, or resume the one that was stopped."""
        if self.run.is_used():
            try:
                return Trainer.resume(self.run.path)
            except UsageError as error:
                # Nobody but the demonstration wrote that recipe.
                raise CorruptFolder(str(error)) from error
        self._claim()
        write_parts(read_cmudict(), self.path, words)
        return Trainer(demo_recipe(self.path, self.run.path, minutes))

    def is_trained(self) -> bool:
        return self._state().finished and self.run.best.exists()

    def _state(self) -> TrainState:
        """Where the run stands; raises CorruptFolder where all that it kept is damaged."""
        if not list_checkpoints(self.run.checkpoints):
            return TrainState()
        try:
            newest, _ = newest_good(self.run.checkpoints)
        except QkvError as error:
            raise CorruptFolder(str(error)) from error
        return read_state(newest)

    def test(self) -> EvaluationSet:
        """The words that are held out."""
        return read_table(self.path / "test.tsv")

    def learned(self) -> frozenset[str]:
        """The words that the model learned from."""
        return frozenset(read_table(self.path / "train.tsv").sources or [])

    def results(self) -> Results | None:
        """Those of an earlier call of `measure`, if the model is still the same."""
        try:
            results = read_record(self._results, Results, "the results of the demonstration")
            measured = set(MEASURED) <= results.scores.keys()
            return results if measured and results.model == read_manifest(self.run.best)["checksum"] else None
        except CorruptFolder:
            # They can be measured again.
            return None

    def measure(self, reporter: Reporter) -> Results:
        """Pronounce the held-out words and keep how good that was."""
        test, state = self.test(), self._state()
        assert test.sources is not None
        counting = reporter.counting("Pronouncing held-out words")
        found = Translator(self.run.path, search=SEARCH).translate(test.sources, token_scores=False, progress=counting)
        outputs = [translation.text for translation in found]
        evaluation = evaluate_outputs(outputs, test, choose_metrics(MEASURED), reporter=reporter)
        results = Results(
            model=read_manifest(self.run.best)["checksum"],
            minutes=state.progress.minutes,
            updates=state.progress.updates,
            learned=len(self.learned()),
            held_out=len(test),
            scores={
                score.metric.name: Figure(score.value, score.interval.low, score.interval.high)
                for score in evaluation.scores
            },
        )
        write_atomic(self._results, json.dumps(asdict(results), indent=2) + "\n")
        return results

"""Train a recipe, or go on with a run: the way in for programs and for the command line."""

import signal
from collections.abc import Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import torch

from qkv.config import dump_config, load_config
from qkv.data.stream import BatchStream
from qkv.errors import CorruptFolder, QkvError, UsageError
from qkv.files import write_atomic
from qkv.kernels.memory import keep_freed_memory
from qkv.models.folder import new_model
from qkv.objectives.teacher_forcing import TeacherForcing
from qkv.training.checkpoint import Learner, list_checkpoints, load_checkpoint, newest_good, require_average
from qkv.training.distributed import Team, cores, local_team, set_threads, torchrun_team
from qkv.training.ema import MovingAverage
from qkv.training.events import EventLog
from qkv.training.loop import Loop
from qkv.training.prepare import Prepared, open_prepared, prepare
from qkv.training.progress import Reporter, default_reporter
from qkv.training.recipe import Recipe
from qkv.training.recorder import Recorder
from qkv.training.run_folder import MetricsLog, RunFolder
from qkv.training.seeds import seed_for
from qkv.training.signals import StopRequest, catch_stop_signals
from qkv.training.state import TrainState
from qkv.training.validation import Validator


@dataclass(frozen=True)
class Result:
    """How a call of `train` ended."""

    run: Path
    finished: bool
    """False: a signal stopped it; `Trainer.resume` goes on."""
    exit_code: int
    updates: int
    scores: dict[str, float]
    """Of the last validation."""
    leads: bool = True
    """False in a process under torchrun that is not the first: it has nothing to tell."""


class Trainer:
    """`Trainer(recipe).train()` starts a run, `Trainer.resume(folder).train()` goes on with one."""

    def __init__(self, recipe: Recipe, reporter: Reporter | None = None) -> None:
        self.recipe = _with_resolved_workers(recipe)
        self.reporter = reporter
        self.resuming = False
        self.cluster: Team | None = None

    @classmethod
    def resume(cls, run: Path | str, overrides: Sequence[str] = (), reporter: Reporter | None = None) -> "Trainer":
        """`overrides` may change keys of `training` and `validation`; all else must stay as it was."""
        for override in overrides:
            if not override.startswith(("training.", "validation.")):
                raise UsageError(f"{override}: only training.* and validation.* can change when resuming")
        folder = RunFolder(Path(run))
        if not folder.config.is_file():
            raise UsageError(f"{run}: holds no run (no config.yaml); give the folder of a run that was started")
        recipe = load_config(Recipe, folder.config, overrides).model_copy(update={"run": Path(run)})
        trainer = cls(recipe, reporter)
        trainer.resuming = True
        return trainer

    def train(self) -> Result:
        keep_freed_memory()
        run = RunFolder(self.recipe.run)
        self.cluster = torchrun_team()
        if self.cluster and not self.cluster.leads:
            return self._follow_in(run, self.cluster)
        if run.is_used() and not self.resuming:
            raise UsageError(
                f"{run.path}: already holds a run; go on with it by --resume {run.path}, or choose another folder "
                "with run=..."
            )
        run.create()
        reporter = self.reporter or default_reporter()
        try:
            with run.locked():
                return self._train_in(run, reporter)
        finally:
            reporter.close()

    def _train_in(self, run: RunFolder, reporter: Reporter) -> Result:
        run.clean()
        if not self.resuming:
            run.clear()
            write_atomic(run.config, dump_config(self.recipe))
        prepared = self._prepare(run, reporter)
        checkpoint = self._checkpoint(run, reporter)
        if self.resuming:
            # Not before: an override that cannot be must not spoil the saved recipe.
            write_atomic(run.config, dump_config(self.recipe))
        workers = self.recipe.training.workers
        assert workers != "auto"
        if self.cluster:
            self.cluster.meet()
            everybody: AbstractContextManager[Team] = nullcontext(self.cluster)
        else:
            everybody = local_team(run.path, checkpoint, workers)
        with catch_stop_signals() as stop, everybody as team:
            return lead(self.recipe, run, prepared, checkpoint, team, reporter, stop)

    def _follow_in(self, run: RunFolder, team: Team) -> Result:
        """Under torchrun, a process other than the first: it reads what the first one has prepared."""
        team.meet()
        checkpoint = newest_good(run.checkpoints)[0] if list_checkpoints(run.checkpoints) else None
        return follow(run, checkpoint, team)

    def _prepare(self, run: RunFolder, reporter: Reporter) -> Prepared:
        if self.resuming:
            try:
                run.verify_prepared()
                return open_prepared(self.recipe, run)
            except CorruptFolder as error:
                reporter.say(f"{error}; preparing the data again")
        prepared = prepare(self.recipe, run, reporter.counting)
        stores = {"train": prepared.train, "dev": prepared.dev}
        for name, store in stores.items():
            if store is not None:
                reporter.say(f"{name}: " + "; ".join(store.report.lines()))
        return prepared

    def _checkpoint(self, run: RunFolder, reporter: Reporter) -> Path | None:
        if not list_checkpoints(run.checkpoints):
            if self.resuming:
                reporter.say("no checkpoint yet: starting from the first update")
            return None
        folder, complaints = newest_good(run.checkpoints)
        for complaint in complaints:
            reporter.say(f"{complaint}; going back to {folder.name}")
        if self.recipe.training.ema:
            require_average(folder)
        return folder


def _with_resolved_workers(recipe: Recipe) -> Recipe:
    """`auto` becomes a number, so that the saved recipe gives the same result on another machine."""
    if recipe.training.workers != "auto":
        return recipe
    return recipe.model_copy(update={"training": recipe.training.model_copy(update={"workers": cores()})})


def lead(
    recipe: Recipe,
    run: RunFolder,
    prepared: Prepared,
    checkpoint: Path | None,
    team: Team,
    reporter: Reporter,
    stop: StopRequest,
) -> Result:
    """The leader's part: the loop with the books."""
    loop = make_loop(recipe, prepared, checkpoint, team)
    if loop.state.finished:
        reporter.say("the run is finished; to go on, raise training.stop_after or validation.patience")
        loop.state.finished = False
    validator = None
    if prepared.dev is not None:
        dev = BatchStream(prepared.dev, prepared.tokenizers, recipe.batch, recipe.seed)
        validator = Validator(recipe.validation, dev, loop.objective, prepared.tokenizers)
    with (
        closing(MetricsLog(run.metrics, loop.state.metrics_bytes)) as metrics,
        closing(EventLog(run.events, loop.state.progress.updates)) as events,
    ):
        loop.recorder = Recorder(
            recipe,
            run,
            loop.learner,
            loop.objective,
            prepared.tokenizers,
            validator,
            metrics,
            events,
            reporter,
            stop,
        )
        parameters = sum(p.numel() for p in loop.learner.model.parameters())
        reporter.say(f"{parameters:,} parameters, {len(loop.stream.plan(loop.state.epoch)):,} batches an epoch")
        loop.run()
    state = loop.state
    return Result(run.path, state.finished, stop.exit_code if stop else 0, state.progress.updates, state.last_scores)


def follow(run: RunFolder, checkpoint: Path | None, team: Team) -> Result:
    """The part of every other worker: the loop without the books; the leader says when to stop."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    recipe = load_config(Recipe, run.config)
    loop = make_loop(recipe, open_prepared(recipe, run), checkpoint, team)
    loop.run()
    return Result(run.path, True, 0, loop.state.progress.updates, {}, leads=False)


def make_loop(recipe: Recipe, prepared: Prepared, checkpoint: Path | None, team: Team) -> Loop:
    """The same in every worker: model, optimiser and position, fresh or from the checkpoint."""
    set_threads(recipe.training.threads, team.world)
    seed_for(recipe.seed, "weights")
    model = new_model(recipe.model, prepared.tokenizers)
    ema = MovingAverage(model, recipe.training.ema) if recipe.training.ema else None
    learner = Learner(model, recipe.optimizer.build(model), ema)
    state = load_checkpoint(checkpoint, learner) if checkpoint else TrainState(data=prepared.identity)
    if state.data != prepared.identity:
        raise QkvError(
            f"{prepared.train.folder}: the training data or the tokenizers changed since the run began; start a new run"
        )
    stream = BatchStream(prepared.train, prepared.tokenizers, recipe.batch, recipe.seed, recipe.text.samples)
    special, vocab_size = prepared.tokenizers.tgt.special, len(prepared.tokenizers.tgt)
    objective = TeacherForcing(recipe.objective, vocab_size, special, lambda: tgt_frequencies(prepared))
    # Nobody goes on, and nobody replaces the checkpoint, before all have read it.
    team.meet()
    return Loop(recipe, learner, state, stream, objective, team, None)


def tgt_frequencies(prepared: Prepared) -> torch.Tensor:
    """How often each target token occurs in the training data, END included."""
    tokenizer = prepared.tokenizers.tgt
    counts = torch.zeros(len(tokenizer), dtype=torch.float64)
    for chunk in prepared.train.chunks():
        ids = list(chain.from_iterable(tokenizer.encode_batch([tgt for _, tgt in chunk])))
        counts += torch.bincount(torch.tensor(ids), minlength=len(counts))
        counts[tokenizer.special.eos] += len(chunk)
    return counts

"""One process's part in a run. Rank 0 also logs, validates and checkpoints; the other ranks only train."""

import copy
import signal
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from qkv.config import load_config
from qkv.core.devices import say_where
from qkv.core.errors import CorruptFolder, QkvError
from qkv.core.files import verify_folder
from qkv.data.tasks import task_of
from qkv.data.tasks.base import Stream
from qkv.models.base import Model
from qkv.models.saved.folder import require_shapes_fit
from qkv.objectives.base import Objective
from qkv.objectives.build import objective_of
from qkv.training.distributed import own_device, set_threads
from qkv.training.ema import MovingAverage
from qkv.training.events import EventLog
from qkv.training.loop import Loop
from qkv.training.outputs import DevData
from qkv.training.progress import SilentTrainingReporter, TrainingReporter
from qkv.training.recipe import Recipe
from qkv.training.recorder import Recorder
from qkv.training.run.checkpoint import checkpoint_shapes
from qkv.training.run.folder import MetricsLog, RunFolder
from qkv.training.run.learner import Learner
from qkv.training.run.state import TrainState
from qkv.training.setup.prepare import PreparedData, copy_weights, open_prepared
from qkv.training.signals import StopRequest
from qkv.training.step.buckets import BucketedStream
from qkv.training.step.compiled import compile_model
from qkv.training.step.precision import Precision
from qkv.training.step.recompute import recompute_layers
from qkv.training.step.update import seed_for
from qkv.training.team import Team
from qkv.training.validation import Validator


@dataclass(frozen=True)
class Result:
    """How a call of `train` ended."""

    run: Path
    finished: bool
    """False: a signal stopped it; `Trainer.resume` continues it."""
    exit_code: int
    updates: int
    scores: dict[str, float]
    """Of the last validation."""
    is_main: bool = True
    """False on ranks other than 0 under torchrun, which report nothing."""


def lead(
    recipe: Recipe,
    run: RunFolder,
    prepared: PreparedData,
    checkpoint: Path | None,
    team: Team,
    reporter: TrainingReporter,
    stop: StopRequest,
) -> Result:
    """Train, log, validate and checkpoint: what rank 0 does."""
    loop = make_loop(recipe, prepared, checkpoint, team, reporter.say)
    finished_before, updates_before = loop.state.finished, loop.state.progress.updates
    # Decided again, by the present recipe.
    loop.state.finished = False
    _require_best(run, loop.state, reporter)
    saved_config = prepared.saved_config(recipe)
    validator = None
    if prepared.dev is not None:
        stream = task_of(recipe.data).stream(prepared.dev, prepared.tokenizers, recipe.batch.of_everything, recipe.seed)
        dev = DevData(stream, prepared.tokenizers, recipe.validation.search, saved_config.length_limit)
        validator = Validator(recipe.validation, recipe.model.asked, recipe.data.kind, dev, loop.objective)
    with (
        closing(MetricsLog(run.metrics, loop.state.metrics_bytes, loop.state.metrics_crc32)) as metrics,
        closing(EventLog(run.events, loop.state.progress.updates)) as events,
    ):
        if metrics.damage:
            reporter.say(f"{run.metrics}: {metrics.damage}; the run itself does not need it and continues")
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
            saved_config,
            team,
        )
        say_where(reporter.say, "training", loop.device)
        parameters = sum(p.numel() for p in loop.learner.model.parameters())
        reporter.say(f"{parameters:,} parameters, {len(loop.stream.plan(loop.state.epoch)):,} batches per epoch")
        loop.run()
    state = loop.state
    if finished_before and state.finished and state.progress.updates == updates_before:
        reporter.say("the run is finished; to train longer, raise training.stop_after or validation.patience")
    return Result(run.path, state.finished, stop.exit_code if stop else 0, state.progress.updates, state.last_scores)


def _require_best(run: RunFolder, state: TrainState, reporter: TrainingReporter) -> None:
    """If the best model is lost or damaged, report it; the next validated model takes its place."""
    if state.best_score is None:
        return
    try:
        verify_folder(run.best)
    except CorruptFolder as error:
        run.set_best_aside()
        state.best_score = state.best_update = None
        reporter.say(f"{error}; the next validated model becomes the best one")


def follow(run: RunFolder, checkpoint: Path | None, team: Team) -> Result:
    """Train until rank 0 stops: what every other rank does."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    recipe = load_config(Recipe, run.config)
    loop = make_loop(recipe, open_prepared(recipe, run), checkpoint, team, SilentTrainingReporter().say)
    loop.run()
    return Result(run.path, True, 0, loop.state.progress.updates, {}, is_main=False)


def make_loop(
    recipe: Recipe, prepared: PreparedData, checkpoint: Path | None, team: Team, say: Callable[[str], None]
) -> Loop:
    """The same on every rank: model, optimiser and position, new or from the checkpoint."""
    set_threads(recipe.training.threads, team.world)
    device = own_device(recipe.training.device, team.rank, team.world)
    precision = Precision(recipe.training.precision, device)
    precision.prepare()
    if checkpoint is not None:
        require_shapes_fit(recipe.model, prepared.tokenizers, checkpoint_shapes(checkpoint), checkpoint)
    seed_for(recipe.seed, "weights")
    model = recipe.model.build(prepared.tokenizers)
    if recipe.start_from is not None and checkpoint is None:
        copy_weights(model, recipe, prepared, say)
    task, tokenizers = task_of(recipe.data), prepared.tokenizers
    stream: Stream = task.stream(prepared.train, tokenizers, recipe.batch, recipe.seed, recipe.text.samples)
    frequencies = partial(task.frequencies, prepared.train, tokenizers)
    objective = objective_of(recipe.objective, recipe.model, recipe.data.kind, tokenizers, frequencies)
    learner = make_learner(recipe, model, objective, team, precision)
    state = learner.load(checkpoint) if checkpoint else TrainState(data=prepared.identity)
    if state.data != prepared.identity:
        raise QkvError(
            f"{prepared.train.folder}: the training data or the tokenizers changed since the run began; start a new run"
        )
    if recipe.training.compile != "off":
        compile_model(model, recipe.training.compile)
        stream = BucketedStream(stream, model.limits)
    # No rank continues, or replaces the checkpoint, before all have read it.
    team.barrier()
    return Loop(recipe, learner, state, stream, objective, team, precision)


def make_learner(recipe: Recipe, model: Model, objective: Objective, team: Team, precision: Precision) -> Learner:
    """The model with its optimiser and average: whole on every rank, or a part of each tensor."""
    training = recipe.training
    sharded = training.sharding == "full" and team.world > 1
    twin = copy.deepcopy(model) if sharded and team.is_main else None
    if training.activation_checkpointing:
        recompute_layers(model)
    if not sharded:
        model.to(precision.device)
        ema = MovingAverage(model, training.ema) if training.ema else None
        return Learner(model, recipe.optimizer.build(model), ema)
    from qkv.training.sharded.learner import ShardedLearner  # its libraries take seconds to import
    from qkv.training.sharded.model import shard

    module = shard(model, objective, precision.device, precision.low)
    ema = MovingAverage(model, training.ema) if training.ema else None
    return ShardedLearner(model, recipe.optimizer.build(model), ema, module, team, twin)

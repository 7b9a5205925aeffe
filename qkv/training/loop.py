"""The training loop: batches, gradient, update. Every rank runs it; rank 0 also logs, validates and checkpoints."""

import math
import time
from dataclasses import dataclass, field, replace

import torch

from qkv.core.errors import QkvError
from qkv.data.tasks.base import Stream, TrainingBatch
from qkv.objectives.base import Objective
from qkv.training.distributed import Team
from qkv.training.recipe import Recipe
from qkv.training.recorder import Recorder, UpdateRecord
from qkv.training.run.checkpoint import Learner
from qkv.training.run.state import TrainState
from qkv.training.update import FlatGradient, Sums, add_gradients, seed_for


@dataclass
class Loop:
    """Everything that one rank needs. Only rank 0 has a recorder."""

    recipe: Recipe
    learner: Learner
    state: TrainState
    stream: Stream
    objective: Objective
    team: Team
    recorder: Recorder | None = None
    gradient: FlatGradient = field(init=False)
    started: float = field(init=False)
    """The start time, had the run never been interrupted."""
    began: float = field(init=False)
    """When the current update began."""

    def __post_init__(self) -> None:
        self.learner.model.train()
        self.gradient = FlatGradient(self.learner.model)
        self.began = time.monotonic()
        self.started = self.began - 60 * self.state.progress.minutes

    def run(self) -> None:
        """Train until `stop_after` is reached, patience runs out, or a signal asks to stop."""
        while True:
            if self.recorder:
                self.recorder.keep_up(self.state, self._done() >= 1)
            self.began = time.monotonic()
            if self._agree_to_stop():
                break
            self.update_once()
        if self.recorder:
            if self._done() >= 1 and not self.state.finished:
                # Time ran out after the recorder last validated and saved.
                self.recorder.keep_up(self.state, True)
            self.recorder.close(self.state)

    def _done(self) -> float:
        return self.state.progress.of(self.recipe.training.stop_after)

    def _agree_to_stop(self) -> bool:
        """Broadcast the clock of rank 0 and its request to stop."""
        stop = bool(self.recorder and self.recorder.wants_to_stop(self.state))
        minutes = (time.monotonic() - self.started) / 60
        agreed = torch.tensor([stop, minutes], dtype=torch.float64) * self.team.is_main
        self.team.all_reduce(agreed)
        self.state.progress.minutes = float(agreed[1])
        return bool(agreed[0]) or self._done() >= 1

    def update_once(self) -> None:
        """One step of the optimiser, from `accumulate` batches of the epoch's plan."""
        state, config = self.state, self.recipe.training
        plan = self.stream.plan(state.epoch)
        numbers = range(state.batch, min(state.batch + config.accumulate, len(plan)))
        update = state.progress.updates + 1
        seed_for(self.recipe.seed, "update", state.epoch, state.batch, self.team.rank)
        batches = [self.stream.batch(state.epoch, i, self.team.rank, self.team.world) for i in numbers]
        self.gradient.clear()
        bf16 = config.precision == "bf16"
        sums = add_gradients(self.learner.model, self.objective, [b for b in batches if len(b)], update, bf16)
        sums = self._over_all_workers(sums)
        norm = self.gradient.finish(max(sums.weight, 1.0), self.recipe.optimizer.clip_norm)
        rate = self._rate(update)
        finite = math.isfinite(sums.loss) and math.isfinite(norm)
        if finite:
            self._apply(update, rate)
        self._move_on(numbers, sums, finite)
        record = UpdateRecord(sums, norm, rate, time.monotonic() - self.began, self._done())
        self._book(record, finite, numbers)

    def _rate(self, update: int) -> float:
        """The learning rate. Where the warm-up ends is known only once it is reached, so the state stores it."""
        schedule, state = self.recipe.schedule, self.state
        if update <= schedule.warmup:
            state.warmed = replace(state.progress)
        warmed = state.warmed.of(self.recipe.training.stop_after)
        return schedule.rate(update, self._done(), self.recipe.model.d_model, warmed)

    def _over_all_workers(self, sums: Sums) -> Sums:
        total = torch.tensor([sums.loss, sums.nll, sums.weight, sums.left_out], dtype=torch.float64)
        self.team.all_reduce(total)
        self.team.all_reduce(self.gradient.flat)
        return Sums(*total.tolist())

    def _apply(self, update: int, rate: float) -> None:
        self.learner.optimizer.step(rate)
        if self.learner.ema:
            self.learner.ema.add(self.learner.model, update)

    def _move_on(self, numbers: range, sums: Sums, applied: bool) -> None:
        """Advance the position in the data; updates and tokens count only if the step was applied."""
        state = self.state
        batches = len(self.stream.plan(state.epoch))
        state.batch = numbers.stop
        state.progress.epochs = state.epoch + state.batch / batches
        if state.batch >= batches:
            state.epoch, state.batch = state.epoch + 1, 0
        if applied:
            state.progress.updates += 1
            state.progress.tokens += round(sums.weight)
            state.bad_in_a_row = 0
        else:
            state.skipped += 1
            state.bad_in_a_row += 1

    def _book(self, record: UpdateRecord, finite: bool, numbers: range) -> None:
        if self.recorder and finite:
            self.recorder.updated(self.state, record)
        elif self.recorder:
            batches = self._whole_batches(numbers)
            examples = [example for batch in batches for example in batch.examples]
            self.recorder.not_finite(self.state, batches, self.stream.unit, self.stream.names(examples))
        if self.state.bad_in_a_row >= self.recipe.training.max_bad_updates:
            raise QkvError(
                f"{self.state.bad_in_a_row} updates in a row had a loss or gradient that is not finite; the last "
                "checkpoint is untouched: lower the learning rate, or look at the batches named in metrics.jsonl"
            )

    def _whole_batches(self, numbers: range) -> list[TrainingBatch]:
        """The batches of the last update with the rows of all workers, for diagnosis."""
        epoch = self.state.epoch - (self.state.batch == 0)
        return [self.stream.batch(epoch, number) for number in numbers]

"""The training loop: batches, gradient, update. Every rank runs it; rank 0 also logs, validates and checkpoints."""

import math
import time
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from qkv.core.errors import QkvError
from qkv.data.tasks.base import Stream, TrainingBatch
from qkv.models.base import Model
from qkv.objectives.base import Objective
from qkv.training.recipe import Recipe
from qkv.training.recorder import Recorder, UpdateRecord
from qkv.training.run.folder import RunFolder
from qkv.training.run.learner import Learner
from qkv.training.run.state import TrainState
from qkv.training.step.batches import BatchSource, batch_fingerprint
from qkv.training.step.compiled import uncompiled
from qkv.training.step.precision import SMALLEST_SCALE, Precision, next_scale
from qkv.training.step.update import BatchPart, Gradient, Sums, Task, seed_for
from qkv.training.team import Team, TeamOrder

NORMS_EVERY = 10
"""Updates between two lines of metrics.jsonl that have the norm of the gradient of each layer."""


@dataclass
class Loop:
    """Everything that one rank needs. Only rank 0 has a recorder."""

    recipe: Recipe
    learner: Learner
    state: TrainState
    stream: Stream
    objective: Objective
    team: Team
    precision: Precision
    recorder: Recorder | None = None
    device: torch.device = field(init=False)
    batches: BatchSource = field(init=False)
    gradient: Gradient = field(init=False)
    started: float = field(init=False)
    """The start time, had the run never been interrupted."""
    began: float = field(init=False)
    """When the current update began."""

    def __post_init__(self) -> None:
        self.learner.model.train()
        self.device = self.learner.model.device
        self.gradient = self.learner.gradient()
        together = self.gradient.passes_together
        self.batches = BatchSource(self.stream, self.team.rank, self.team.world, self.device, together)
        if self.precision.name == "fp16":
            self.state.loss_scale = self.state.loss_scale or self.precision.first_scale
        else:
            self.state.loss_scale = None
        self.began = time.monotonic()
        self.started = self.began - 60 * self.state.progress.minutes

    def run(self) -> None:
        """Train until `stop_after` is reached, patience runs out, or a signal asks to stop."""
        while self._decide() if self.team.is_main else self._follow():
            self.update_once()
        self.learner.finish()

    def _decide(self) -> bool:
        """On rank 0, between two updates: validate and save, and tell all whether to go on.

        They are told to stop last of all: what is sharded is validated and saved by all of them.
        """
        if self.recorder:
            self._keep_up(self.recorder)
        self.began = time.monotonic()
        self.state.progress.minutes = (self.began - self.started) / 60
        stop = self._done() >= 1 or bool(self.recorder and self.recorder.wants_to_stop(self.state))
        if stop and self.recorder:
            if self._done() >= 1 and not self.state.finished:
                # Time ran out after the recorder last validated and saved.
                self._keep_up(self.recorder)
            self.recorder.close(self.state)
        self.team.tell(TeamOrder.STOP if stop else TeamOrder.GO_ON, self.state.progress.minutes)
        return not stop

    def _follow(self) -> bool:
        """On every other rank: take part in what rank 0 does between two updates, until it goes on or stops."""
        while True:
            order, minutes = self.team.hear()
            if order in (TeamOrder.GO_ON, TeamOrder.STOP):
                self.began = time.monotonic()
                self.state.progress.minutes = minutes  # the clock of all is that of rank 0
                return order == TeamOrder.GO_ON
            self.learner.take_part(order, RunFolder(self.recipe.run).checkpoints, self.state)

    def _keep_up(self, recorder: Recorder) -> None:
        """Validate and save if it is time to."""
        with uncompiled(self.recipe.training.compile):
            recorder.keep_up(self.state, self._done() >= 1)

    def _done(self) -> float:
        return self.state.progress.of(self.recipe.training.stop_after)

    def update_once(self) -> None:
        """One step of the optimiser, from `accumulate` batches of the epoch's plan."""
        state, config = self.state, self.recipe.training
        plan = self.stream.plan(state.epoch)
        numbers = range(state.batch, min(state.batch + config.accumulate, len(plan)))
        update = state.progress.updates + 1
        seed_for(self.recipe.seed, "update", state.epoch, state.batch, self.team.rank)
        parts = self.batches.take(state.epoch, numbers)
        self.batches.expect(*self._after(numbers))
        scale = state.loss_scale or 1.0
        task = Task(self.learner.model, self.objective, update, self.precision, scale)
        own = self.gradient.add(task, parts, self.device)
        sums, mark, norm = self._over_all_workers(own, self._mark(parts, numbers))
        norms = self._norms_by_layer(update, max(sums.weight, 1.0) * scale)
        norm = self.gradient.finish(norm, max(sums.weight, 1.0) * scale, self.recipe.optimizer.clip_norm)
        rate = self._rate(update)
        finite = math.isfinite(sums.loss) and math.isfinite(norm)
        if finite:
            self._apply(update, rate)
        overflow = self._rescaled(math.isfinite(sums.loss), finite)
        self._move_on(numbers, sums, finite, overflow)
        seconds = time.monotonic() - self.began
        record = UpdateRecord(sums, norm, rate, seconds, self._done(), f"{mark:014x}", norms)
        self._book(record, finite, overflow, numbers)

    def _mark(self, parts: list[BatchPart], numbers: range) -> int:
        """What identifies the rows of this worker; the sum over all identifies the update's."""
        examples = [example for part in parts if part.own for example in part.batch.examples]
        return batch_fingerprint(examples, self.state.epoch, numbers.start)

    def _after(self, numbers: range) -> tuple[int, range]:
        """Epoch and batches of the update after that of `numbers`, if that one does not end the epoch."""
        end = len(self.stream.plan(self.state.epoch))
        return self.state.epoch, range(numbers.stop, min(numbers.stop + self.recipe.training.accumulate, end))

    def _rescaled(self, finite_loss: bool, finite: bool) -> bool:
        """Adapt the scale of the loss; returns whether the scaled gradient overflowed, which is no fault of the run."""
        state = self.state
        if state.loss_scale is None:
            return False
        overflow = finite_loss and not finite and state.loss_scale > SMALLEST_SCALE
        state.loss_scale, state.scale_updates = next_scale(state.loss_scale, state.scale_updates, finite)
        return overflow

    def _norms_by_layer(self, update: int, weight: float) -> dict[str, float]:
        """Of the gradient before clipping, now and then."""
        if update % NORMS_EVERY:
            return {}
        return {layer: float(f"{norm / weight:.5g}") for layer, norm in self.gradient.by_layer(self.team).items()}

    def _rate(self, update: int) -> float:
        """The learning rate. Where the warm-up ends is known only once it is reached, so the state stores it."""
        schedule, state = self.recipe.schedule, self.state
        if update <= schedule.warmup:
            state.warmed = replace(state.progress)
        warmed = state.warmed.of(self.recipe.training.stop_after)
        return schedule.rate(update, self._done(), self.recipe.model.d_model, warmed)

    def _over_all_workers(self, sums: Tensor, mark: int) -> tuple[Sums, int, float]:
        """The sums [4], the mark and the norm of the summed gradient: all that is read from the device, at once.

        A mark is exact in float64 up to two million examples; a device without float64 has no other workers.
        """
        numbers = torch.cat([sums, torch.tensor([mark], dtype=sums.dtype).to(sums.device)])
        *total, all_marks, norm = self.gradient.reduce(self.team, numbers).tolist()
        return Sums(*total), mark if self.team.world == 1 else int(all_marks), norm

    def _apply(self, update: int, rate: float) -> None:
        with self.precision.autocast_step():
            self.learner.optimizer.step(rate)
        if self.learner.ema:
            self.learner.ema.add(self.learner.model, update)

    def _move_on(self, numbers: range, sums: Sums, applied: bool, overflow: bool) -> None:
        """Advance the position in the data; updates and tokens count only if the step was applied.

        An overflow in float16 is expected now and then, so it is skipped but not counted as bad.
        """
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
        elif not overflow:
            state.skipped += 1
            state.bad_in_a_row += 1

    def _book(self, record: UpdateRecord, finite: bool, overflow: bool, numbers: range) -> None:
        if self.recorder and finite:
            self.recorder.updated(self.state, record)
        elif self.recorder and overflow:
            self.recorder.overflowed(self.state)
        elif not finite and not overflow:
            with self.learner.whole() as model:
                self._diagnose(model, numbers)
        if self.state.bad_in_a_row >= self.recipe.training.max_bad_updates:
            raise QkvError(
                f"{self.state.bad_in_a_row} updates in a row had a loss or gradient that is not finite; the last "
                "checkpoint is untouched: lower the learning rate, or look at the batches named in metrics.jsonl"
            )

    def _diagnose(self, model: Model, numbers: range) -> None:
        if self.recorder:
            batches = self._whole_batches(numbers)
            examples = [example for batch in batches for example in batch.examples]
            self.recorder.not_finite(model, self.state, batches, self.stream.unit, self.stream.names(examples))

    def _whole_batches(self, numbers: range) -> list[TrainingBatch]:
        """The batches of the last update with the rows of all workers, for diagnosis."""
        epoch = self.state.epoch - (self.state.batch == 0)
        return [self.stream.batch(epoch, number) for number in numbers]

"""Rank 0 also logs, validates and checkpoints, and keeps the best model."""

import math
from dataclasses import asdict, dataclass, field

from qkv.core.files import write_atomic
from qkv.data.tasks.base import TrainingBatch
from qkv.kernels.threads import cores, using_threads
from qkv.models.base import Model
from qkv.models.saved.folder import SavedConfig, SavedModel, load_model, save_model
from qkv.objectives.base import Objective
from qkv.text import TokenizerPair
from qkv.training.diagnose import find_first_bad
from qkv.training.events import EventLog
from qkv.training.inside.snapshots import snapshot_file, snapshot_text
from qkv.training.outputs.base import Tick
from qkv.training.progress import MovingMean, TrainingReporter, UpdateInfo
from qkv.training.recipe import Recipe
from qkv.training.run.checkpoint import rotate
from qkv.training.run.folder import MetricsLog, RunFolder
from qkv.training.run.learner import Learner
from qkv.training.run.state import RunProgress, TrainState
from qkv.training.signals import StopRequest
from qkv.training.step.precision import Precision
from qkv.training.step.update import Sums
from qkv.training.team import Team
from qkv.training.validation import Validation, Validator, is_better

EVENTS_EVERY = 10
"""Updates between two points of TensorBoard's curves; metrics.jsonl has every update."""


@dataclass(frozen=True)
class UpdateRecord:
    """The numbers of one update."""

    sums: Sums
    grad_norm: float
    rate: float
    seconds: float
    done: float
    """The completed fraction of the run."""
    batch: str
    """Identifies the examples of the update and their place in the data (`batch_fingerprint`)."""
    grad_norms: dict[str, float]
    """By layer; empty: not measured."""


class _StopValidation(Exception):
    """A signal came while validating."""


@dataclass
class Recorder:
    """Writes the outputs of a run: logs, checkpoints, the best model."""

    recipe: Recipe
    run: RunFolder
    learner: Learner
    objective: Objective
    tokenizers: TokenizerPair
    validator: Validator | None
    metrics: MetricsLog
    events: EventLog
    reporter: TrainingReporter
    stop: StopRequest
    saved_config: SavedConfig
    """What is saved with the best model."""
    team: Team
    loss: MovingMean = field(default_factory=MovingMean)
    speed: MovingMean = field(default_factory=MovingMean)
    """For the display; metrics.jsonl has the numbers of each update."""

    def updated(self, state: TrainState, record: UpdateRecord) -> None:
        """After an update that was applied."""
        weight, progress = max(record.sums.weight, 1.0), state.progress
        values = {
            "loss": record.sums.loss / weight,
            "nll": record.sums.nll / weight,
            "grad_norm": record.grad_norm,
            "lr": record.rate,
            "tokens_per_second": weight / record.seconds,
        }
        line = {"update": progress.updates, "epoch": round(progress.epochs, 4), **values}
        left_out = {"left_out": round(record.sums.left_out)} if record.sums.left_out else {}
        norms = {"grad_norms": record.grad_norms} if record.grad_norms else {}
        self.metrics.write(
            {**line, "tgt_tokens": round(weight), "batch": record.batch, **left_out, **norms, "seconds": record.seconds}
        )
        if progress.updates % EVENTS_EVERY == 0:
            self.events.write("train", values, progress.updates)
        seconds_left = 60 * progress.minutes * (1 - record.done) / max(record.done, 1e-9)
        loss, speed = self.loss.add(record.sums.nll, weight), self.speed.add(weight, record.seconds)
        self.reporter.update(UpdateInfo(state, loss, speed, record.rate, record.done, seconds_left))

    def not_finite(
        self, model: Model, state: TrainState, batches: list[TrainingBatch], unit: str, sources: list[str]
    ) -> None:
        """After an update that was not applied: say what was wrong and where. `sources` name the examples, which are
        called `unit`."""
        update = state.progress.updates + 1
        precision = Precision(self.recipe.training.precision, model.device)
        first_bad = find_first_bad(model, self.objective, batches, update, precision)
        examples = [example for batch in batches for example in batch.examples]
        line = {"skipped": state.skipped, "update": update, "first_bad": first_bad, unit: examples, "sources": sources}
        self.metrics.write(line)
        self.reporter.say(
            f"update {update} was not applied: {first_bad} is not finite ({state.bad_in_a_row} in a row; "
            f'its {len(examples)} {unit}, from "{sources[0]}" on, are in metrics.jsonl)'
        )

    def overflowed(self, state: TrainState) -> None:
        """After an update in float16 that was not applied, since the scaled gradient was too large: the next one is
        scaled by less."""
        self.metrics.write({"overflow": state.progress.updates + 1, "loss_scale": state.loss_scale})

    def keep_up(self, state: TrainState, last: bool) -> None:
        """Validate and save if it is time, or if the run is over."""
        config, progress = self.recipe, state.progress
        due = last or progress.passed(config.validation.every, state.validated)
        validate = self.validator is not None and due and progress.updates > state.validated.updates
        try:
            if validate:
                self._validate(state)
        except _StopValidation:
            # The signal takes precedence; the validation is due again when the run is resumed.
            return
        except Exception:
            # Save first: a validation that fails must not lose the progress since the last checkpoint.
            if progress.updates > state.saved.updates:
                self.save(state)
            raise
        finished = last or self._out_of_patience(state)
        # Written again although these weights are saved already: now with the score, or marked as finished.
        news = validate or finished != state.finished
        state.finished = finished
        due = progress.passed(config.training.save_every, state.saved) or finished
        if news or (due and progress.updates > state.saved.updates):
            self.save(state)
        if state.finished and self.validator is None:
            with self.learner.averaged() as model:
                self._save_best(model, state, {})

    def _validate(self, state: TrainState) -> None:
        """Score the model (the average, if there is one), and keep it if it is the best."""
        assert self.validator is not None
        counting = self.reporter.counting("Validating")

        def tick(done: int, total: int) -> None:
            counting(done, total)
            self.team.let_wait()
            if self.stop:
                raise _StopValidation

        # The other ranks are waiting, so this one may use their cores.
        config = self.recipe.validation
        with using_threads(self.recipe.training.threads or cores()):
            if state.best_score is not None and not config.can_compare(state.scored_by):
                self._score_best_again(state, tick)
            with self.learner.averaged() as model:
                result = self.validator(model, tick)
                score = result.scores[config.best]
                improved = is_better(config.best, score, state.best_score)
                if improved:
                    self._save_best(model, state, result.scores)
        state.validated = RunProgress(**asdict(state.progress))
        state.last_scores, state.scored_by = result.scores, config.scored_by()
        state.without_improvement = 0 if improved else state.without_improvement + 1
        if improved:
            state.best_score, state.best_update = score, state.progress.updates
        self._publish(state, result, improved)

    def _score_best_again(self, state: TrainState, tick: Tick) -> None:
        """After a change of `validation`: scores of different kinds cannot be compared."""
        assert self.validator is not None
        metric = self.recipe.validation.best
        score = self.validator(load_model(self.run.best).model.to(self.learner.model.device), tick).scores[metric]
        if score == state.best_score:
            return
        before = (state.scored_by or {}).get("best", "another score")
        self.reporter.say(
            f"best/ was chosen by {before}{' with other settings' if before == metric else ''}; its {metric} is "
            f"{score:.4g}, now the score to beat"
        )
        state.best_score = None if math.isnan(score) else score
        state.without_improvement = 0

    def _save_best(self, model: Model, state: TrainState, scores: dict[str, float]) -> None:
        """The best model so far; without dev data, the last one."""
        about = {"update": state.progress.updates, "scores": scores}
        save_model(self.run.best, SavedModel(model, self.tokenizers, self.saved_config), about)

    def _publish(self, state: TrainState, result: Validation, improved: bool) -> None:
        update = state.progress.updates
        self.metrics.write({"validation": update, **result.scores, "best": improved, "cut": result.cut})
        self.events.write("dev", result.scores, update)
        if result.samples:
            write_atomic(self.run.samples / f"update-{update:08d}.txt", result.samples_text())
        if result.snapshot is not None and result.snapshot["pairs"]:
            self.run.attention.mkdir(exist_ok=True)
            write_atomic(snapshot_file(self.run.attention, update), snapshot_text(result.snapshot))
        scores = "  ".join(f"{name} {value:.4g}" for name, value in result.scores.items())
        unfinished = f"  ({result.cut:,} outputs cut at validation.search.max_length)" if result.cut else ""
        self.reporter.say(f"update {update:,}  dev {scores}" + ("  (best so far)" if improved else "") + unfinished)

    def save(self, state: TrainState) -> None:
        """Write a checkpoint and drop those that need not be kept."""
        state.saved = RunProgress(**asdict(state.progress))
        state.metrics_bytes, state.metrics_crc32 = self.metrics.size(), self.metrics.crc32
        best, config = state.best_update, self.recipe
        self.learner.save(
            self.run.checkpoints,
            state,
            lambda: rotate(self.run.checkpoints, config.training, config.validation, best),
        )

    def _out_of_patience(self, state: TrainState) -> bool:
        config = self.recipe.validation
        # After a change of the deciding score, earlier validations do not count.
        counted = state.scored_by is None or config.can_compare(state.scored_by)
        return config.patience is not None and counted and state.without_improvement >= config.patience

    def wants_to_stop(self, state: TrainState) -> bool:
        return bool(self.stop) or state.finished

    def close(self, state: TrainState) -> None:
        """After the last update: save what is not saved yet, so that a signal loses nothing."""
        if state.progress.updates > state.saved.updates:
            self.save(state)

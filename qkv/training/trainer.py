"""Trains a recipe or resumes a run: the entry point for programs and for the command line."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import torch

from qkv.config import differing_keys, dump_config, load_config, with_overrides
from qkv.core.devices import CPU, choose_device, multiplies_in_bfloat16
from qkv.core.errors import ArgumentError, CorruptFolder, UsageError
from qkv.core.files import refuse_pickles, write_atomic
from qkv.core.outputs import refuse_inside
from qkv.data.tasks import task_of
from qkv.kernels.threads import bounded_workers, cores, using_threads
from qkv.text.given import checked_texts, type_name
from qkv.training.distributed import local_team, torchrun_team
from qkv.training.progress import TrainingReporter, default_training_reporter
from qkv.training.recipe import Recipe
from qkv.training.run.checkpoint import list_checkpoints, newest_good, require_average
from qkv.training.run.folder import RunFolder
from qkv.training.session import Result, follow, lead
from qkv.training.setup.advice import advise
from qkv.training.setup.memory import require_training_memory, set_memory
from qkv.training.setup.prepare import PreparedData, open_prepared, prepare
from qkv.training.signals import catch_stop_signals
from qkv.training.step.precision import Precision
from qkv.training.team import Team

LOOP = ("training.", "validation.")
"""Keys that may change when a run is resumed."""


class Trainer:
    """`Trainer(recipe).train()` starts a run, `Trainer.resume(folder).train()` resumes one.

    If the folder of the recipe already holds a run of the same recipe, `Trainer(recipe).train()` resumes that run, or
    returns its result if it is finished, so a notebook cell can be run again.

    Examples:
        >>> from qkv import Trainer
        >>> result = Trainer.resume("runs/reverse", ["training.stop_after=3u"]).train()
        >>> result.finished, result.updates, sorted(result.scores)
        (True, 3, ['cer', 'exact', 'loss', 'perplexity'])
    """

    def __init__(self, recipe: Recipe, reporter: TrainingReporter | None = None) -> None:
        if not isinstance(recipe, Recipe):
            raise ArgumentError(
                f"recipe: must be a Recipe, not {type_name(recipe)}; load_config(Recipe, FILE) reads one"
            )
        begun = _begun(recipe.run) if "auto" in (recipe.training.workers, recipe.training.precision) else None
        self.recipe = _resolved(recipe, begun)
        self.reporter = reporter
        self.resuming = False
        self.cluster: Team | None = None

    @classmethod
    def resume(
        cls, run: Path | str | Recipe, overrides: Sequence[str] = (), reporter: TrainingReporter | None = None
    ) -> "Trainer":
        """Resume the run in a folder, or the run of a recipe, which may have changed since.

        `overrides` and the recipe may change keys of `training` and `validation`; everything else must stay the same.
        """
        for override in checked_texts("overrides", overrides):
            if not override.startswith(LOOP):
                raise UsageError(f"{override}: only training.* and validation.* can change when resuming")
        if not isinstance(run, Path | str | Recipe):
            raise ArgumentError(f"run: must be the folder of a run (str or Path) or a Recipe, not {type_name(run)}")
        trainer = cls(_changed_recipe(run, overrides) if isinstance(run, Recipe) else _saved_recipe(run, overrides))
        trainer.reporter, trainer.resuming = reporter, True
        return trainer

    def train(self) -> Result:
        """Train until the end of the recipe, or until a signal."""
        training = self.recipe.training
        device = choose_device(training.device)
        set_memory(training.sharding, device)
        Precision(training.precision, device).prepare()
        run = RunFolder(self.recipe.run)
        # The caller's threads are again as they were when training is over.
        with using_threads(torch.get_num_threads()), torchrun_team(training.device, training.timeout) as self.cluster:
            if self.cluster and not self.cluster.is_main:
                return self._follow_in(run, self.cluster)
            return self._lead_in(run)

    def _lead_in(self, run: RunFolder) -> Result:
        if not self.cluster:
            bounded_workers(self.recipe.training.workers, "training.workers")
        again = run.is_used() and not self.resuming
        if again:
            self._take_up(run)
        if self.resuming:
            run.adopt()
        else:
            # A new run first removes what an earlier start left in its folder.
            refuse_inside(run.path, [self.recipe.tokenizers, self.recipe.start_from])
        run.create()
        reporter = self.reporter or default_training_reporter()
        try:
            with run.locked():
                if again:
                    reporter.say(f"{run.path}: holds a run of this recipe; to train anew, choose another run=...")
                return self._train_in(run, reporter)
        finally:
            reporter.close()

    def _take_up(self, run: RunFolder) -> None:
        """Resume the run of the same recipe that the folder holds; raises UsageError if it is another one."""
        other = "choose another folder with run=..."
        run.clean()  # A checkpoint that was being replaced gets its name back.
        if not (run.config.is_file() and list_checkpoints(run.checkpoints)):
            raise UsageError(f"{run.path}: already holds a model; {other}")
        if differ := _differing(load_config(Recipe, run.config), self.recipe):
            raise UsageError(
                f"{run.path}: already holds a run with another {', '.join(differ)}; {other}, or resume it: "
                f"qkv train --resume {run.path}, in Python Trainer.resume"
            )
        self.resuming = True

    def _train_in(self, run: RunFolder, reporter: TrainingReporter) -> Result:
        run.clean()
        if not self.resuming:
            run.clear()
            write_atomic(run.config, dump_config(self.recipe))
        prepared = self._prepare(run, reporter)
        require_training_memory(self.recipe, prepared, self.cluster.world if self.cluster else None)
        checkpoint = self._checkpoint(run, reporter)
        # Not before: an invalid override must not damage the saved recipe. The other ranks read it.
        with _recipe_changed(run, self.recipe) if self.resuming else nullcontext():
            return self._lead_team(run, prepared, checkpoint, reporter)

    def _lead_team(
        self, run: RunFolder, prepared: PreparedData, checkpoint: Path | None, reporter: TrainingReporter
    ) -> Result:
        training = self.recipe.training
        assert training.workers != "auto"
        if self.cluster:
            self.cluster.announce("prepared")
            everybody: AbstractContextManager[Team] = nullcontext(self.cluster)
        else:
            everybody = local_team(run.path, checkpoint, training.workers, training.device, training.timeout)
        with catch_stop_signals() as stop, everybody as team:
            return lead(self.recipe, run, prepared, checkpoint, team, reporter, stop)

    def _follow_in(self, run: RunFolder, team: Team) -> Result:
        """Under torchrun, ranks other than 0 read what rank 0 prepared."""
        team.wait_for("prepared")
        checkpoint = newest_good(run.checkpoints)[0] if list_checkpoints(run.checkpoints) else None
        return follow(run, checkpoint, team)

    def _prepare(self, run: RunFolder, reporter: TrainingReporter) -> PreparedData:
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
        if not self.resuming:
            self._advise(prepared, reporter)
        return prepared

    def _advise(self, prepared: PreparedData, reporter: TrainingReporter) -> None:
        shared = None
        # Examples that are held out of train are not in it.
        if prepared.dev is not None and self.recipe.data.holdout is None:
            compare = task_of(self.recipe.data).overlap
            shared = compare(prepared.dev, prepared.train, reporter.counting("Comparing dev with train"))
        for sentence in advise(self.recipe, prepared, shared):
            reporter.say(f"advice: {sentence}")

    def _checkpoint(self, run: RunFolder, reporter: TrainingReporter) -> Path | None:
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


@contextmanager
def _recipe_changed(run: RunFolder, recipe: Recipe) -> Iterator[None]:
    """Context in which the run has the recipe `recipe`, for the workers to read; a UsageError brings back the old one.

    Some keys turn out to be wrong only when the model is built. Once a checkpoint was made with them, they stay.
    """
    before, checkpoints = run.config.read_text(encoding="utf-8"), list_checkpoints(run.checkpoints)
    write_atomic(run.config, dump_config(recipe))
    try:
        yield
    except UsageError:
        if list_checkpoints(run.checkpoints) == checkpoints:
            write_atomic(run.config, before)
        raise


def _resolved(recipe: Recipe, saved: Recipe | None = None) -> Recipe:
    """Resolve `auto`, of workers and precision: as in the saved run, whose results depend on it, or by the machine."""
    training, known = recipe.training, saved.training if saved else None
    changes: dict[str, object] = {}
    if training.workers == "auto":
        changes["workers"] = known.workers if known else _places(training.device)
    if training.precision == "auto":
        fast = multiplies_in_bfloat16(choose_device(training.device))
        changes["precision"] = known.precision if known else "bf16" if fast else "fp32"
    return recipe.model_copy(update={"training": training.model_copy(update=changes)}) if changes else recipe


def _places(device: str) -> int:
    """How many workers this machine has room for."""
    found = choose_device(device)
    if found == CPU:
        return cores()
    return 1 if found.index is not None else torch.accelerator.device_count()


def _begun(run: Path) -> Recipe | None:
    """The recipe of the run in a folder; None if there is none."""
    folder = RunFolder(run)
    return _saved_recipe(run) if folder.config.is_file() and folder.is_used() else None


def _saved_recipe(run: Path | str, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe that the run in a folder was started with, with some keys changed."""
    config = RunFolder(Path(run)).config
    if not config.is_file():
        refuse_pickles(Path(run))
        raise UsageError(f"{run}: holds no run (no config.yaml); give the folder of a run that was started")
    return _resolved(load_config(Recipe, config, overrides).model_copy(update={"run": Path(run)}))


def _changed_recipe(recipe: Recipe, overrides: Sequence[str]) -> Recipe:
    """The recipe with the overrides; raises UsageError if the run in its folder cannot be resumed with it."""
    saved = _saved_recipe(recipe.run)
    changed = _resolved(recipe, saved)
    if overrides:
        changed = with_overrides(Recipe, changed.model_dump(mode="json"), overrides, "recipe")
        # An override that says auto means this machine.
        changed = _resolved(changed)
    if fixed := [key for key in _differing(saved, changed) if not key.startswith(LOOP)]:
        raise UsageError(
            f"{recipe.run}: was started with another {', '.join(fixed)}; only training.* and validation.* can change "
            "when resuming, so choose another folder with run=..."
        )
    return changed


def _differing(some: Recipe, other: Recipe) -> list[str]:
    """Keys that determine a run; not the name of its folder."""
    return [key for key in differing_keys(some, other) if key != "run"]

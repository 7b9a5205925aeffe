"""Runs in which something goes wrong on purpose; each function is the whole life of a forked process."""

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from torch import Tensor

from qkv.config import load_config
from qkv.core.errors import QkvError
from qkv.data import check
from qkv.models.saved import folder
from qkv.models.saved.folder import SavedModel
from qkv.models.saved.weights import write_tensors
from qkv.objectives.teacher_forcing import TeacherForcing
from qkv.training import distributed
from qkv.training.progress import SilentTrainingReporter
from qkv.training.recipe import Recipe, TrainingConfig
from qkv.training.run import checkpoint, learner
from qkv.training.run.checkpoint import rotate
from qkv.training.run.folder import RunFolder
from qkv.training.session import make_loop
from qkv.training.setup.prepare import open_prepared
from qkv.training.team import Team
from qkv.training.trainer import Trainer
from tests.support.forks import command
from tests.support.tiny import as_recipe


def run_to_end(trainer: Trainer) -> None:
    """As the command does it."""
    try:
        result = trainer.train()
    except QkvError as error:
        sys.stderr.write(f"qkv: {error}\n")
        sys.exit(error.exit_code)
    sys.exit(result.exit_code)


def slow_validation(recipe: str, marker: str) -> None:
    """`qkv train` in which each batch of a validation takes a second; `marker` appears when the first has begun."""
    fast = TeacherForcing.validation_loss

    def slow(self: TeacherForcing, *arguments: Any) -> Any:
        Path(marker).touch()
        time.sleep(1)
        return fast(self, *arguments)

    with mock.patch.object(TeacherForcing, "validation_loss", slow):
        command("train", recipe)


CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate")


class Death:
    """Ends the process without a word before its `moment`-th change of the disk, or in the middle of a tensor file."""

    def __init__(self, moment: int) -> None:
        self.moment, self.steps = moment, 0

    def step(self) -> None:
        self.steps += 1
        if self.steps == self.moment:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(self) -> None:
        """Count changes by Python's audit events; syncs and the writes of safetensors have none."""
        sys.addaudithook(self._audit)
        for place in (learner, folder):
            mock.patch.object(place, "write_tensors", self._write_in_halves).start()
        sync = os.fsync

        def counted(descriptor: int) -> None:
            self.step()
            sync(descriptor)

        mock.patch.object(os, "fsync", counted).start()

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in CHANGES or (event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR)):
            self.step()

    def _write_in_halves(self, path: Path, tensors: Mapping[str, Tensor]) -> None:
        self.step()
        write_tensors(path, tensors)
        whole = path.read_bytes()
        os.truncate(path, len(whole) // 2)
        self.step()
        path.write_bytes(whole)


def die_at_every_step(original: str, copies: str, update: int, keep_last: int) -> None:
    """In one copy of a run for each moment: save a checkpoint of `update`, rotate, save the best model, and die."""
    recipe = load_config(Recipe, Path(original) / "config.yaml")
    prepared = open_prepared(recipe, RunFolder(Path(original)))
    newest, _ = checkpoint.newest_good(Path(original) / "checkpoints")
    loop = make_loop(recipe, prepared, newest, Team(), SilentTrainingReporter().say)
    loop.state.progress.updates = update
    config = folder.SavedConfig(model=recipe.model, text=recipe.text)
    saved = SavedModel(loop.learner.model, prepared.tokenizers, config)
    for moment in range(1, 1000):
        run = Path(shutil.copytree(original, Path(copies) / str(moment)))
        pid = os.fork()
        if pid == 0:
            Death(moment).watch()
            learner.save_checkpoint(run / "checkpoints", loop.learner, loop.state)
            training = TrainingConfig(keep_last=keep_last, keep_best=0)
            rotate(run / "checkpoints", training, recipe.validation, None)
            folder.save_model(run / "best", saved, {"update": update})
            os._exit(0)
        if os.waitpid(pid, 0)[1] == 0:
            return


def with_small_files(largest: int, *arguments: str) -> None:
    """`qkv ARGUMENTS` where no file can grow beyond `largest` bytes: writing fails as on a full disk."""
    # stderr is a file too, so it goes through a process without the limit.
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=os.dup(2)) as copier:
        assert copier.stdin
        os.dup2(copier.stdin.fileno(), 2)
        copier.stdin.close()
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
        try:
            command(*arguments)
        finally:
            sys.stderr.flush()
            os.close(2)


def worker_that_cannot_start(recipe: dict[str, Any]) -> None:
    """The second process is gone before it has said a word."""
    with mock.patch.object(distributed, "child_command", return_value=["false"]):
        run_to_end(Trainer(as_recipe(recipe)))


def interrupted_data_check(recipe: str) -> None:
    """Ctrl-C while the samples are looked at."""
    with mock.patch.object(check, "epoch_plan", side_effect=lambda *_: os.kill(os.getpid(), signal.SIGINT)):
        command("data", "check", recipe)


def with_closed_streams(numbers: list[int], *arguments: str) -> None:
    """`qkv ARGUMENTS` with some of the standard streams closed, as `2>&-` in a shell leaves them to Python."""
    for number in numbers:
        os.close(number)
        setattr(sys, ("stdin", "stdout", "stderr")[number], None)
    command(*arguments)


def with_little_memory(more: int, *arguments: str) -> None:
    """`qkv ARGUMENTS` where the process may take only `more` bytes beyond what it has."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    most = pages * resource.getpagesize() + more
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    command(*arguments)

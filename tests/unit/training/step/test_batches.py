"""Batches on their device: the same ones in the same order, whoever makes them."""

from pathlib import Path

import pytest
import torch

from qkv.training import distributed, session, trainer
from qkv.training.progress import SilentTrainingReporter
from qkv.training.run.folder import read_metrics
from qkv.training.step.batches import batch_fingerprint
from qkv.training.trainer import Trainer
from tests.support.pretended import ELSEWHERE, pretended_device
from tests.support.tiny import as_recipe, changed, plain, validations_of


def test_the_shares_of_ranks_add_up_to_the_whole() -> None:
    examples = [5, 17, 3, 40, 41]
    whole = batch_fingerprint(examples, 2, 7)
    assert whole == batch_fingerprint(examples[::2], 2, 7) + batch_fingerprint(examples[1::2], 2, 7)
    others = {
        batch_fingerprint(examples, 2, 8),
        batch_fingerprint(examples, 3, 7),
        batch_fingerprint([5, 17, 3, 40, 42], 2, 7),
    }
    assert len({whole, *others, batch_fingerprint([*examples, 1], 2, 7)}) == 5
    assert batch_fingerprint([], 2, 7) == 0
    assert whole < 2**53


def losses(run: Path) -> list[float]:
    lines = [line for line in read_metrics(run / "metrics.jsonl") if "batch" in line]
    return [line[key] for line in lines for key in ("loss", "nll", "grad_norm")]


def test_a_run_elsewhere_is_stopped_and_resumed(data: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches that a thread makes in advance, validation, checkpoints and the best model, on a pretended device."""
    here = changed(plain(data, scratch / "here", 8), model={"dropout": 0.0}, training={"ema": 0.9})
    Trainer(as_recipe(here), SilentTrainingReporter()).train()
    for module in (session, distributed, trainer):
        for name in ("choose_device", "own_device"):
            monkeypatch.setattr(module, name, lambda *_: ELSEWHERE, raising=False)
    with pretended_device():
        for updates in (3, 8):
            there = changed({**here, "run": str(scratch / "there")}, training={"stop_after": f"{updates}u"})
            run = Trainer.resume if updates == 8 else Trainer
            run(as_recipe(there), reporter=SilentTrainingReporter()).train()
    assert losses(scratch / "there") == pytest.approx(losses(scratch / "here"), rel=1e-3)
    found, wanted = (
        [line["batch"] for line in read_metrics(scratch / name / "metrics.jsonl") if "batch" in line]
        for name in ("there", "here")
    )
    assert found == wanted
    scores = {line["validation"]: line["loss"] for line in validations_of(scratch / "there")}
    for line in validations_of(scratch / "here"):
        assert scores[line["validation"]] == pytest.approx(line["loss"], rel=1e-3)
    assert torch.get_default_device() == torch.device("cpu")

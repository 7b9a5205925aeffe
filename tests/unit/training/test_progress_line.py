"""The progress line shows moving means, and metrics.jsonl the numbers of each update."""

from pathlib import Path

import pytest

from qkv.training.progress import WINDOW, MovingMean, SilentTrainingReporter, UpdateInfo
from qkv.training.run.folder import read_metrics
from qkv.training.trainer import Trainer
from tests.support.tiny import as_recipe, plain


class Listener(SilentTrainingReporter):
    def __init__(self) -> None:
        self.losses: list[float] = []

    def update(self, info: UpdateInfo) -> None:
        self.losses.append(info.loss)


def test_the_mean_of_equal_numbers_is_that_number_from_the_first_on() -> None:
    mean = MovingMean()
    assert [mean.add(3.0 * weight, weight) for weight in (5, 1, 100)] == pytest.approx([3, 3, 3])


def test_a_single_update_moves_it_little_and_a_lasting_change_all_the_way() -> None:
    mean = MovingMean()
    for _ in range(4 * WINDOW):
        mean.add(2.0, 1.0)
    assert mean.add(102.0, 1.0) == pytest.approx(2.0 + 100 / WINDOW, rel=0.1)
    for _ in range(20 * WINDOW):
        last = mean.add(1.0, 1.0)
    assert last == pytest.approx(1.0, abs=1e-3)


def test_the_line_shows_the_mean_over_the_tokens_of_the_last_updates(data: Path, scratch: Path) -> None:
    listener = Listener()
    Trainer(as_recipe(plain(data, scratch / "run", 6)), listener).train()
    updates = [line for line in read_metrics(scratch / "run" / "metrics.jsonl") if "nll" in line]
    mean = MovingMean()
    expected = [mean.add(line["nll"] * line["tgt_tokens"], line["tgt_tokens"]) for line in updates]
    assert listener.losses == pytest.approx(expected)
    assert listener.losses[1:] != pytest.approx([line["nll"] for line in updates][1:])

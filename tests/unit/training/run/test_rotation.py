"""Which checkpoints stay, also when the score that decides has changed."""

import json
import math
import warnings
from pathlib import Path
from typing import Any

import pytest

from qkv.core.files import new_folder
from qkv.training.recipe import TrainingConfig, ValidationConfig
from qkv.training.run.checkpoint import STATE, best_checkpoints, checkpoint_name, list_checkpoints, rotate
from qkv.training.run.state import RunProgress, TrainState

LOSS = ValidationConfig()
BLEU = ValidationConfig(metrics=["bleu"], best="bleu")


def write(
    parent: Path, update: int, validation: ValidationConfig | None, validated: bool = True, **scores: Any
) -> None:
    state = TrainState(
        progress=RunProgress(updates=update),
        validated=RunProgress(updates=update if validated else update - 1),
        last_scores=scores,
        scored_by=validation.scored_by() if validation else None,
    )
    with new_folder(parent / checkpoint_name(update), {"what": "checkpoint"}) as folder:
        (folder / STATE).write_text(json.dumps(state.as_dict()))


def numbers(folders: list[Path]) -> list[int]:
    return [int(folder.name[5:]) for folder in folders]


def keep(parent: Path, last: int, best: int, validation: ValidationConfig, best_update: int | None = None) -> list[int]:
    rotate(parent, TrainingConfig(keep_last=last, keep_best=best), validation, best_update)
    return numbers(list_checkpoints(parent))


@pytest.fixture
def scored(tmp_path: Path) -> Path:
    """Seven checkpoints; the scores of 3 and 7 are those of an earlier update, and 8 has none."""
    losses = {1: 3.0, 2: 1.0, 3: 0.0, 4: 2.0, 5: 1.0, 6: 5.0, 7: 0.0}
    for update, loss in losses.items():
        write(tmp_path, update, LOSS, validated=update not in (3, 7), loss=loss, bleu=loss)
    write(tmp_path, 8, LOSS, loss=math.nan, bleu=math.nan)
    return tmp_path


def test_the_last_and_the_best_stay(scored: Path) -> None:
    folders = list_checkpoints(scored)
    assert numbers(best_checkpoints(folders, LOSS)) == [2, 5, 4, 1, 6]
    assert numbers(best_checkpoints(folders, BLEU)) == [6, 1, 4, 2, 5]
    assert keep(scored, 2, 3, LOSS) == [2, 4, 5, 7, 8]
    assert keep(scored, 1, 1, LOSS) == [2, 8]
    assert keep(scored, 1, 0, LOSS) == [8]


def test_the_checkpoint_of_the_best_model_stays_though_its_score_was_another(tmp_path: Path) -> None:
    """Its score by the new metric is not in its state, but best/ was scored again and is still the best."""
    for update, loss in {1: 1.0, 2: 2.0, 3: 3.0}.items():
        write(tmp_path, update, LOSS, loss=loss)
    write(tmp_path, 4, BLEU, loss=4.0, bleu=7.0)
    write(tmp_path, 5, BLEU, loss=5.0, bleu=6.0)
    assert numbers(best_checkpoints(list_checkpoints(tmp_path), BLEU)) == [4, 5]
    assert keep(tmp_path, 1, 2, BLEU, best_update=1) == [1, 4, 5]
    assert keep(tmp_path, 1, 1, BLEU, best_update=1) == [1, 5]


def test_scores_of_other_settings_are_not_compared(tmp_path: Path) -> None:
    """Of ten sources only, or by another search; the loss is always of all."""
    few = ValidationConfig(metrics=["bleu"], best="bleu", max_sources=10)
    write(tmp_path, 1, few, loss=1.0, bleu=99.0)
    write(tmp_path, 2, BLEU, loss=2.0, bleu=50.0)
    write(tmp_path, 3, None, loss=3.0, bleu=60.0)
    assert numbers(best_checkpoints(list_checkpoints(tmp_path), BLEU)) == [3, 2]
    assert numbers(best_checkpoints(list_checkpoints(tmp_path), LOSS)) == [1, 2, 3]


def test_scores_of_an_earlier_version_go_by_what_they_meant(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    """Its wer was another score; its accuracy is called exact now, in files that nobody will edit."""
    write(tmp_path, 1, None, loss=1.0, wer=90.0, accuracy=10.0)
    write(tmp_path, 2, None, loss=2.0, wer=5.0, accuracy=95.0)
    for name, order in {"wer": [3], "exact": [2, 3, 1]}.items():
        validation = ValidationConfig(metrics=["wer", "exact"], best=name)
        write(tmp_path, 3, validation, loss=3.0, wer=40.0, exact=50.0)
        assert numbers(best_checkpoints(list_checkpoints(tmp_path), validation)) == order
    assert not recwarn.list


def test_a_search_that_an_earlier_version_wrote_is_the_same_search(tmp_path: Path) -> None:
    """It wrote the keys of all readers beside those of the search."""
    now = ValidationConfig.model_validate(
        {"metrics": ["bleu"], "best": "bleu", "search": {"kind": "refine", "beam": 4}}
    )
    written = {key: value for key, value in now.scored_by()["search"].items() if key != "reader"}
    before = {**now.scored_by(), "search": {**written, "beam": 4, "way": None, "blank_penalty": 0.0}}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert now.can_compare(before)
        assert not now.can_compare({**before, "search": {**before["search"], "beam": 3}})
        assert not now.can_compare({**before, "search": {"kind": "of another version"}})
        assert not now.can_compare({**before, "max_sources": 7})
    write(tmp_path, 1, now, bleu=1.0)
    state = json.loads((tmp_path / checkpoint_name(1) / STATE).read_text())
    (tmp_path / checkpoint_name(1) / STATE).write_text(json.dumps({**state, "scored_by": before}))
    assert numbers(best_checkpoints(list_checkpoints(tmp_path), now)) == [1]


def test_of_a_checkpoint_that_is_a_link_only_the_link_is_removed(scored: Path, tmp_path_factory: Any) -> None:
    """Somebody moved it to a larger disk."""
    moved = (scored / checkpoint_name(1)).rename(tmp_path_factory.mktemp("disk") / "moved")
    (scored / checkpoint_name(1)).symlink_to(moved)
    assert keep(scored, 1, 0, LOSS) == [8]
    assert (moved / STATE).exists()
    assert [path.name for path in scored.iterdir()] == [checkpoint_name(8)]

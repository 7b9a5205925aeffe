"""Sharded runs of several processes: the run of one process, checkpoints for any number of them, no pickle."""

import pickle
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.checkpoint.state_dict_saver import save

from qkv.core.errors import ConfigError, CorruptFolder
from qkv.core.files import verify_folder, write_manifest
from qkv.models.saved.folder import load_model
from qkv.training.run.checkpoint import checkpoint_name, checkpoint_weights, list_checkpoints
from qkv.training.run.folder import read_metrics
from qkv.training.sharded.files import file_numbers
from tests.support.forks import Forks
from tests.support.ranks import run_ranks, start_ranks, train_with
from tests.support.tiny import as_recipe, changed, leftovers, lines_of, plain, validations_of, write_recipe

SHARDED: dict[str, Any] = {"sharding": "full", "accumulate": 2, "ema": 0.9, "save_every": "4u"}


def recipe_of(data: Path, run: Path, updates: int = 8, **training: Any) -> dict[str, Any]:
    """Of two layers, without dropout. The last batch of an epoch has fewer rows than there are ranks."""
    recipe = changed(plain(data, run, updates), model={"dropout": 0.0, "encoder_layers": 2})
    return changed(recipe, training={**SHARDED, **training})


def numbers(run: Path) -> list[float]:
    """Losses, norms of gradients and the scores of validations."""
    lines = [line for line in read_metrics(run / "metrics.jsonl") if "batch" in line]
    by_layer = [norm for line in lines for norm in line.get("grad_norms", {}).values()]
    scores = [line["loss"] for line in validations_of(run)]
    return [*(line["loss"] for line in lines), *(line["grad_norm"] for line in lines), *by_layer, *scores]


def losses(run: Path) -> list[float]:
    return [line["loss"] for line in read_metrics(run / "metrics.jsonl") if "batch" in line]


def marks(run: Path) -> list[str]:
    return [line["batch"] for line in read_metrics(run / "metrics.jsonl") if "batch" in line]


@pytest.fixture(scope="module")
def alone(data: Path, in_memory: Path, forks: Forks) -> Path:
    """The run of one process."""
    run = in_memory / "alone"
    assert forks.qkv("train", write_recipe(in_memory / "alone.yaml", recipe_of(data, run, 12))).code == 0
    return run


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_two_processes_equal_one(data: Path, scratch: Path, forks: Forks, optimizer: str) -> None:
    results = {}
    for world in (1, 2):
        run = scratch / str(world)
        recipe = recipe_of(data, run, activation_checkpointing=world == 2) | {"optimizer": {"kind": optimizer}}
        file = write_recipe(scratch / f"{world}.yaml", recipe)
        train_with(forks, 2, file) if world == 2 else forks.qkv("train", file)
        results[world] = numbers(run), marks(run), load_model(run / "best").model.state_dict()
        assert leftovers(run) == []
    assert results[2][0] == pytest.approx(results[1][0], abs=1e-5)
    assert results[2][1] == results[1][1]
    for name, weight in results[1][2].items():
        if name.endswith("key.bias"):
            continue  # softmax does not depend on it: its gradient is rounding alone, which Adam makes as large as any
        torch.testing.assert_close(results[2][2][name], weight, rtol=0, atol=1e-4, msg=name)


@pytest.mark.slow
def test_the_world_grows_shrinks_and_is_one_process(data: Path, scratch: Path, forks: Forks, alone: Path) -> None:
    """Four processes, then two, then one that does not shard, then two again: the run that was never interrupted."""
    run = scratch / "run"
    said = train_with(forks, 4, write_recipe(scratch / "recipe.yaml", recipe_of(data, run, 4)))
    assert said.count("finished after update 4") == 1
    run_ranks(forks, 2, "train", "--resume", run, "training.stop_after=6u")
    assert forks.qkv("train", "--resume", run, "training.stop_after=8u", "training.sharding=none").code == 0
    run_ranks(forks, 2, "train", "--resume", run, "training.stop_after=12u", "training.sharding=full")
    assert losses(run) == pytest.approx(losses(alone), abs=1e-5)
    assert marks(run) == marks(alone)
    assert leftovers(run) == []


@pytest.mark.slow
def test_weights_that_travel_in_sixteen_bits(data: Path, scratch: Path, forks: Forks) -> None:
    """The same loss as one process that is not sharded, within the rounding of the products' gradients."""
    found = {}
    for world in (1, 2):
        run = scratch / str(world)
        recipe = recipe_of(data, run, 6, precision="bf16", ema=None) | {"optimizer": {"kind": "schedule_free"}}
        file = write_recipe(scratch / f"{world}.yaml", recipe)
        train_with(forks, 2, file) if world == 2 else forks.qkv("train", file)
        found[world] = losses(run)
    assert found[2] == pytest.approx(found[1], rel=5e-3)


def test_a_signal_loses_nothing(data: Path, scratch: Path, forks: Forks) -> None:
    """All ranks write the last checkpoint before they part."""
    run = scratch / "run"
    recipe = recipe_of(data, run, 10_000, workers=2, save_every="10000u")
    recipe["validation"]["every"] = "10000u"
    child = forks.start_qkv("train", write_recipe(scratch / "recipe.yaml", recipe))
    child.until(lambda: lines_of(run) >= 3)
    child.send(signal.SIGTERM)
    ended = child.wait()
    assert ended.code == 143, ended.stderr
    (last,) = list_checkpoints(run / "checkpoints")
    assert f"stopped after update {int(last.name.split('-')[1])}" in ended.stderr


def test_time_that_is_up_ends_with_a_validation(data: Path, scratch: Path, forks: Forks) -> None:
    """The weights of all ranks are put together for it, so none of them may have left."""
    run = scratch / "run"
    recipe = recipe_of(data, run, workers=2, stop_after="0.1m", save_every="10000u")
    recipe["validation"]["every"] = "10000u"
    ended = forks.qkv("train", write_recipe(scratch / "recipe.yaml", recipe))
    assert ended.code == 0, ended.stderr
    (last,) = list_checkpoints(run / "checkpoints")
    assert checkpoint_name(validations_of(run)[-1]["validation"]) == last.name
    assert verify_folder(run / "best")


def test_float16_scales_the_loss_on_all_ranks_alike(data: Path, scratch: Path, forks: Forks) -> None:
    """Where the gradient overflows depends on the rows of a rank, so the run of one process skips other updates."""
    run = scratch / "run"
    train_with(forks, 2, write_recipe(scratch / "recipe.yaml", recipe_of(data, run, 8, precision="fp16", ema=None)))
    found = losses(run)
    assert len(found) == 8
    assert found[-1] < found[0] - 0.3


@pytest.fixture(scope="module")
def in_parts(data: Path, in_memory: Path, forks: Forks) -> Path:
    """The sharded run of two processes."""
    run = in_memory / "parts"
    train_with(forks, 2, write_recipe(in_memory / "parts.yaml", recipe_of(data, run)))
    return run


@pytest.fixture
def checkpoint(in_parts: Path, scratch: Path) -> Path:
    """A copy of its last checkpoint."""
    last = list_checkpoints(in_parts / "checkpoints")[-1]
    return Path(shutil.copytree(last, scratch / last.name))


def test_a_checkpoint_in_parts_is_read_by_one_process(in_parts: Path, scratch: Path, forks: Forks) -> None:
    """Whatever reads a checkpoint reads one that is in parts; none of it is a pickle."""
    last = list_checkpoints(in_parts / "checkpoints")[-1]
    files = {path.name for path in last.iterdir()}
    shards = sorted(name for name in files if name.startswith("shard-"))
    assert len(shards) == 2
    assert files - set(shards) == {"manifest.json", "state.json"}
    assert forks.qkv("average", in_parts, "--last", 1, "--out", scratch / "average").code == 0
    averaged = dict(load_model(scratch / "average").model.named_parameters())
    for name, weight in checkpoint_weights(last).items():
        torch.testing.assert_close(averaged[name].detach(), weight)


def test_a_rank_writes_several_files_if_it_holds_much() -> None:
    """As many tensors in a file as fit; one that is larger than a file has one of its own."""
    tensors = {name: torch.empty(size) for name, size in zip("abcdef", (3, 3, 2, 9, 1, 7), strict=True)}
    assert file_numbers(tensors, 32) == {"a": 1, "b": 1, "c": 1, "d": 2, "e": 3, "f": 3}


@pytest.mark.slow
def test_a_checkpoint_of_several_files_for_each_rank_is_resumed(data: Path, scratch: Path, forks: Forks) -> None:
    recipe = changed(recipe_of(data, scratch / "run", 2, ema=None), model={"d_ff": 120_000})
    train_with(forks, 2, write_recipe(scratch / "recipe.yaml", recipe))
    last = list_checkpoints(scratch / "run" / "checkpoints")[-1]
    names = sorted(path.name for path in last.glob("shard-*"))
    assert len(names) > 4
    assert {name.partition("-model")[0] for name in names} == {"shard-00001", "shard-00002"}
    done = forks.qkv("train", "--resume", scratch / "run", "training.stop_after=3u", "training.sharding=none")
    assert done.code == 0
    assert losses(scratch / "run")[-1] < losses(scratch / "run")[0]


def test_a_checkpoint_with_a_damaged_part_is_refused(checkpoint: Path) -> None:
    """Missing, cut off, the same twice. Without the last rows a tensor is shorter, which does not fit the model."""
    first, second = sorted(checkpoint.glob("shard-*"))
    whole, other = first.read_bytes(), second.read_bytes()
    first.unlink()
    with pytest.raises(CorruptFolder, match="is missing"):
        verify_folder(checkpoint)
    with pytest.raises(CorruptFolder, match=r"parts of .* are missing"):
        checkpoint_weights(checkpoint)
    for content in (b"not a tensor", whole[:-1], whole[:100]):
        first.write_bytes(content)
        with pytest.raises(CorruptFolder, match="is not a readable checkpoint"):
            checkpoint_weights(checkpoint)
    first.write_bytes(other)
    with pytest.raises(CorruptFolder, match=r"parts of .* do not fit"):
        checkpoint_weights(checkpoint)


def test_a_part_may_be_a_link_to_its_content_only(checkpoint: Path) -> None:
    part = next(checkpoint.glob("shard-*"))
    moved = part.rename(checkpoint.parent / "elsewhere")
    part.symlink_to(moved)
    verify_folder(checkpoint)
    moved.write_bytes(b"what stands here now is not what was saved")
    with pytest.raises(CorruptFolder, match="has changed since it was written"):
        verify_folder(checkpoint)
    moved.unlink()
    with pytest.raises(CorruptFolder, match="is missing"):
        verify_folder(checkpoint)


class Shout:
    """Its pickle makes a file when it is read."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.marker,)


@pytest.fixture
def strangers(tmp_path: Path) -> Path:
    """A folder as torch.distributed.checkpoint writes it, with a pickle that runs code."""
    folder = tmp_path / "strangers"
    with pytest.warns(UserWarning, match="single process"):
        save({"weight": torch.zeros(3)}, checkpoint_id=folder, no_dist=True)
    (folder / ".metadata").write_bytes(pickle.dumps(Shout(tmp_path / "ran")))
    return folder


def test_folders_of_strangers_are_refused(strangers: Path, in_parts: Path, scratch: Path, forks: Forks) -> None:
    """As a model, as a run, as a checkpoint of a run: in one sentence, and nothing in them is run."""
    marker = strangers.parent / "ran"
    for arguments in (("translate", strangers), ("train", "--resume", strangers), ("see", strangers, "text")):
        ended = forks.qkv(*arguments)
        assert ended.code == 1
        assert "a checkpoint of torch.distributed.checkpoint, which can run code when it is read" in ended.complaint
    run = Path(shutil.copytree(in_parts, scratch / "run"))
    newest = run / "checkpoints" / checkpoint_name(99)
    shutil.copytree(strangers, newest)
    shutil.copy(list_checkpoints(run / "checkpoints")[0] / "state.json", newest)
    write_manifest(newest, {"what": "checkpoint", "update": 99})
    ended = forks.qkv("train", "--resume", run, "training.sharding=none")
    assert ended.code == 0
    assert "never reads one" in ended.stderr
    assert "going back to step-00000008" in ended.stderr
    assert not marker.exists()
    pickle.loads((strangers / ".metadata").read_bytes())
    assert marker.exists(), "this pickle would have run code"


def test_a_rank_that_cannot_write_its_part(in_parts: Path, scratch: Path, forks: Forks) -> None:
    """One sentence; the checkpoint before it stays, the incomplete one is not there, and the run can go on."""
    run = Path(shutil.copytree(in_parts, scratch / "run"))
    more = ("train", "--resume", run, "training.stop_after=12u")
    ranks = start_ranks(forks, 2, *more, full_disk_of=1)
    ended = [child.wait(180) for child in ranks]
    assert [one.code for one in ended] == [1, 1]
    assert "the checkpoint could not be written" in ended[0].complaint
    assert "the one before it is good" in ended[0].complaint
    assert [folder.name for folder in list_checkpoints(run / "checkpoints")][-1] == checkpoint_name(8)
    run_ranks(forks, 2, *more)
    assert list_checkpoints(run / "checkpoints")[-1].name == checkpoint_name(12)
    assert leftovers(run) == []


def test_what_cannot_be_sharded_is_refused(data: Path, scratch: Path) -> None:
    recipe = recipe_of(data, scratch / "run") | {"start_from": "somewhere", "objective": {"risk": "bleu"}}
    with pytest.raises(ConfigError, match=r"training\.sharding: objective\.risk decodes while it learns"):
        as_recipe(recipe)

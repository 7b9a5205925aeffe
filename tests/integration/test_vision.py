"""A Vision Transformer learns which pattern an image shows, is measured, asked, resumed, and refused elsewhere."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from qkv.training.recipe import Recipe
from qkv.training.trainer import Trainer
from tests.support.commands import quiet
from tests.support.forks import Forks

PATTERNS = {"bar": np.s_[3:5, :], "post": np.s_[:, 3:5], "spot": np.s_[2:6, 2:6]}


def drawn(count: int, seed: int) -> tuple[Any, list[str]]:
    """Bright patterns, shifted by a pixel or not, on noise."""
    random = np.random.default_rng(seed)
    images, labels = random.integers(0, 90, (count, 8, 8)), []
    for image in images:
        label = list(PATTERNS)[random.integers(3)]
        pattern = np.zeros((8, 8), dtype=int)
        pattern[PATTERNS[label]] = 150
        image += np.roll(pattern, random.integers(-1, 2, 2), axis=(0, 1))
        labels.append(label)
    return images.astype(np.uint8), labels


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("images")
    for seed, (name, count) in enumerate({"train": 300, "dev": 60, "test": 60}.items()):
        images, labels = drawn(count, seed)
        np.savez(made / f"{name}.npz", images=images, labels=np.array(labels))
    return made


def settings(folder: Path, run: Path, updates: int) -> dict[str, Any]:
    parts = {name: {"kind": "npz", "path": f"{name}.npz"} for name in ("train", "dev", "test")}
    return {
        "run": str(run),
        "data": {"kind": "images", "root": str(folder), **parts},
        "batch": {"tokens": 30},
        "model": {
            "kind": "vision", "image_size": [8, 8], "channels": 1, "patch": 2, "classes": 3, "d_model": 16, "d_ff": 32,
            "num_layers": 1, "num_heads": 2, "dropout": 0.1,
        },
        "schedule": {"kind": "linear", "peak": 1e-2, "warmup": 10},
        "training": {"stop_after": f"{updates}u", "threads": 1},
        "validation": {"every": "20u", "metrics": ["exact"], "best": "exact"},
    }  # fmt: skip


@pytest.fixture(scope="module")
def run(folder: Path, in_memory: Path) -> Path:
    result = Trainer(Recipe.model_validate(settings(folder, in_memory / "patterns", 80))).train()
    assert result.scores["exact"] > 95
    assert "out  " in next((in_memory / "patterns" / "samples").iterdir()).read_text()
    return in_memory / "patterns"


def test_it_learns_and_is_measured(run: Path, folder: Path, forks: Forks) -> None:
    shown = json.loads(quiet(forks.qkv("evaluate", run, "--json")))
    assert shown["test"]["accuracy"] > 95
    assert shown["test"]["classes"] == ["bar", "post", "spot"]
    assert sum(map(sum, shown["test"]["confusion"])) == 60
    other = json.loads(quiet(forks.qkv("evaluate", run, "--json", "--data", folder / "test.npz")))
    assert other == shown["test"]
    assert "60 images, " in quiet(forks.qkv("evaluate", run, "--split", "dev"))


def test_images_are_classified(run: Path, folder: Path, tmp_path: Path, forks: Forks) -> None:
    images, labels = drawn(6, seed=9)
    for number, image in enumerate(images):
        # Larger files are scaled to the size that the model reads.
        Image.fromarray(image).resize((16, 16), Image.Resampling.NEAREST).save(tmp_path / f"{number}.png")
    np.savez(tmp_path / "all.npz", images=images)
    lines = quiet(forks.qkv("classify", run, "--images", tmp_path)).splitlines()
    assert [line.split("\t")[1] for line in lines] == labels
    shown = quiet(forks.qkv("classify", run, "--images", tmp_path / "all.npz", "--json"))
    rows = [json.loads(line) for line in shown.splitlines()]
    assert [row["label"] for row in rows] == labels
    assert sum(rows[0]["probabilities"].values()) == pytest.approx(1)
    assert next(iter(rows[0]["probabilities"])) == rows[0]["label"]


def enlarged(images: Any, height: int, width: int) -> Any:
    """Each pixel `height` times below and `width` times beside itself."""
    return images.repeat(height, axis=1).repeat(width, axis=2)


def test_archives_of_other_sizes_are_read_as_they_are(run: Path, tmp_path: Path, forks: Forks) -> None:
    images, labels = drawn(6, seed=9)
    files = []
    for shape in ((1, 1), (2, 2), (1, 2)):
        files.append(tmp_path / f"{shape}.npz")
        np.savez(files[-1], images=enlarged(images, *shape), labels=np.array(labels))
    Image.fromarray(images[0]).save(tmp_path / "one.png")
    given = [word for file in [*files, tmp_path / "one.png"] for word in ("--images", file)]
    rows = [line.split("\t") for line in quiet(forks.qkv("classify", run, *given)).splitlines()]
    assert [name for name, *_ in rows[:12:6]] == [f"{file}:1" for file in files[:2]]
    assert [label for _, label, _ in rows[:6]] == labels
    assert rows[18][1:] == rows[0][1:]
    for number, file in enumerate(files):
        measured = json.loads(quiet(forks.qkv("evaluate", run, "--json", "--data", file)))
        said = [label for _, label, _ in rows[6 * number : 6 * number + 6]]
        right = sum(one == other for one, other in zip(said, labels, strict=True))
        assert measured["accuracy"] == pytest.approx(100 * right / 6)


@pytest.mark.parametrize(
    ("shape", "size"),
    [((6, 9, 8), "9 x 8 pixels, 1 channel"), ((6, 8, 8, 3), "8 x 8 pixels, 3 channels")],
)
def test_images_that_the_model_cannot_read_are_refused(
    run: Path, tmp_path: Path, forks: Forks, shape: tuple[int, ...], size: str
) -> None:
    path = tmp_path / "other.npz"
    np.savez(path, images=np.zeros(shape, dtype=np.uint8), labels=np.array(["bar"] * 6))
    problem = (
        f"{path}: has images of {size}, but the model reads those of 1 channel whose height and width are multiples of "
        "2; convert them, or "
    )
    ended = forks.qkv("classify", run, "--images", path)
    assert (ended.code, ended.complaint) == (1, f"{problem}give image files, which are scaled")
    ended = forks.qkv("evaluate", run, "--data", path)
    assert ended.code == 1
    assert ended.complaint == f"{problem}give size: [8, 8] and channels: 1 with a folder"


def test_attention_over_an_image_is_drawn(run: Path, tmp_path: Path, forks: Forks) -> None:
    images, _ = drawn(1, seed=9)
    Image.fromarray(images[0]).save(tmp_path / "a.png")
    quiet(forks.qkv("show", "image", run, tmp_path / "a.png", "--out", tmp_path / "map.svg"))
    shown = (tmp_path / "map.svg").read_text()
    assert shown.count("<image") == 1
    assert "head 2" in shown
    assert "layer 1" in shown
    quiet(forks.qkv("show", "image", run, tmp_path / "a.png", "--out", tmp_path / "map.png"))
    with Image.open(tmp_path / "map.png") as figure:
        assert len(figure.convert("RGB").getcolors(1 << 24) or []) > 20, "heat maps have many colours"
    quiet(forks.qkv("show", "image", run, tmp_path / "a.png", "--out", tmp_path / "map.pdf"))
    assert (tmp_path / "map.pdf").read_bytes().startswith(b"%PDF")
    ended = forks.qkv("show", "image", run, tmp_path / "a.png", "--out", tmp_path / "map.jpg")
    assert ended.complaint == "a figure is written as .svg, .png or .pdf, not as .jpg"


def test_data_are_looked_at_before(folder: Path, scratch: Path, forks: Forks) -> None:
    path = scratch / "recipe.yaml"
    path.write_text(json.dumps(settings(folder, scratch / "run", 5)))
    assert "dev: 60 images of 3 classes" in quiet(forks.qkv("data", "check", path))
    ended = forks.qkv("train", path, "model.classes=4")
    assert ended.complaint == "model.classes is 4, but the images of data.train have 3; set model.classes to 3"


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (("translate",), "is a model of the kind vision: qkv classify MODEL names the classes of images"),
        (("serve",), "is a model of the kind vision: qkv classify MODEL names the classes of images"),
        (("attach", "es-en"), "is a model of the kind vision: qkv classify MODEL names the classes of images"),
        (
            ("forecast", "--data", "a.csv"),
            "is a model of the kind vision: qkv classify MODEL names the classes of images",
        ),
        (("evaluate", "--metrics", "bleu"), "--metrics: only for models that write texts, not for vision"),
        (("classify", "--images", "nothing.png"), "nothing.png: no such file"),
    ],
)
def test_what_does_not_apply_is_refused_by_name(
    run: Path, forks: Forks, command: tuple[str, ...], sentence: str
) -> None:
    ended = forks.qkv(command[0], run, *command[1:])
    assert ended.code in (1, 2)
    assert sentence in ended.complaint

"""Images from folders and archives, their store, and batches by number."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from qkv.core.errors import CorruptFolder, DataError
from qkv.data.images.batch import ImageStream
from qkv.data.images.folder import ImageFolder
from qkv.data.images.npz import ImageArchive
from qkv.data.images.sources import ImageSource
from qkv.data.images.store import ImagePart, ImageStore, build_image_store

PIXELS = np.random.default_rng(0).integers(0, 256, (7, 4, 6, 3), dtype=np.uint8)
LABELS = ["dog", "cat", "dog", "bird", "cat", "dog", "cat"]


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A folder for each class, in PNG and PPM."""
    for number, (pixels, label) in enumerate(zip(PIXELS, LABELS, strict=True)):
        folder = tmp_path / "photos" / label
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(folder / f"{number}.{'png' if number % 2 else 'ppm'}")
    (tmp_path / "photos" / "notes.txt").write_text("not an image")
    return tmp_path / "photos"


def stored(tmp_path: Path, *sources: ImageSource, classes: Sequence[str] | None = None) -> ImageStore:
    build_image_store(tmp_path / "store", ImagePart(sources, tmp_path), "", classes)
    return ImageStore.open(tmp_path / "store")


def test_a_folder_for_each_class(tmp_path: Path, photos: Path) -> None:
    store = stored(tmp_path, ImageFolder(path=photos))
    assert store.classes == ["bird", "cat", "dog"]
    assert store.image_shape == (3, 4, 6)
    order = [3, 1, 4, 6, 0, 2, 5]  # by class, then by name
    assert np.array_equal(store.pixels, PIXELS[order].transpose(0, 3, 1, 2))
    assert store.label_names(range(7)) == [LABELS[i] for i in order]
    assert store.report.lines() == ["7 images of 3 classes"]


def test_grey_and_scaled(tmp_path: Path, photos: Path) -> None:
    assert stored(tmp_path, ImageFolder(path=photos, channels=1, size=(2, 3))).image_shape == (1, 2, 3)


@pytest.mark.parametrize("labels", [LABELS, [2, 1, 2, 0, 1, 2, 1]])
@pytest.mark.parametrize("channels", [None, 1, 3])
def test_an_archive(tmp_path: Path, labels: list[str] | list[int], channels: int | None) -> None:
    images = PIXELS[..., 0] if channels is None else PIXELS[..., :channels]
    np.savez(tmp_path / "a.npz", images=images, labels=np.array(labels))
    store = stored(tmp_path, ImageArchive(path=Path("a.npz")), ImageArchive(path=Path("a.npz"), weight=0.5))
    assert store.image_shape == (channels or 1, 4, 6)
    assert store.label_names(range(14)) == 2 * [str(label) for label in labels]
    assert np.array_equal(store.pixels[:7, 0], PIXELS[..., 0])
    assert [tuple(each) for each in store.ranges] == [(0, 7, 1.0), (7, 14, 0.5)]


def test_bad_images_are_refused_in_a_sentence(tmp_path: Path, photos: Path) -> None:
    with pytest.raises(DataError, match="nowhere: no such folder; give a folder with a folder of images for each"):
        stored(tmp_path, ImageFolder(path=Path("nowhere")))
    (tmp_path / "empty" / "cat").mkdir(parents=True)
    with pytest.raises(DataError, match=r"holds no images; .* such as .*empty/cat/1\.png"):
        stored(tmp_path, ImageFolder(path=Path("empty")))
    Image.fromarray(PIXELS[0][:, :3]).save(photos / "cat" / "9.png")
    with pytest.raises(
        DataError, match=r"9\.png: has 4 x 3 pixels, 3 channels, but .*3\.png has 4 x 6 pixels.*set size"
    ):
        stored(tmp_path, ImageFolder(path=photos))
    (photos / "cat" / "9.png").write_bytes(b"nonsense")
    with pytest.raises(DataError, match=r"9\.png: is not an image that Pillow can read"):
        stored(tmp_path, ImageFolder(path=photos))
    (photos / "cat" / "9.png").write_bytes((photos / "cat" / "1.png").read_bytes()[:60])
    with pytest.raises(DataError, match=r"9\.png: "):
        stored(tmp_path, ImageFolder(path=photos))
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("images", "labels", "sentence"),
    [
        (PIXELS / 255, LABELS, "is of type float64, not uint8; save values from 0 to 255"),
        (PIXELS[0, 0], LABELS, r"has the shape \(6, 3\)"),
        (PIXELS, LABELS[1:], "has 7 images and 6 labels"),
        (PIXELS, np.zeros(7), "must hold a whole number or a text for each image, not float64"),
        (PIXELS, ["dog"] * 6 + [" "], r"a\.npz:7: the label is empty"),
    ],
)
def test_bad_archives_are_refused_in_a_sentence(tmp_path: Path, images: object, labels: object, sentence: str) -> None:
    np.savez(tmp_path / "a.npz", images=np.asarray(images), labels=np.asarray(labels))
    with pytest.raises(DataError, match=sentence):
        stored(tmp_path, ImageArchive(path=Path("a.npz")))


def test_a_damaged_store_is_noticed(tmp_path: Path, photos: Path) -> None:
    store = stored(tmp_path, ImageFolder(path=photos))
    (store.folder / "labels.npy").write_bytes(b"")
    with pytest.raises(CorruptFolder, match=r"labels\.npy: is missing or has changed"):
        ImageStore.open(store.folder)


def test_an_epoch_has_every_image_once_in_the_order_of_the_model_s_classes(tmp_path: Path, photos: Path) -> None:
    classes = ["dog", "fish", "cat", "bird"]
    store = stored(tmp_path, ImageFolder(path=photos), classes=classes)
    stream = ImageStream(store, images_per_batch=3, seed=1)
    assert len(stream.plan(0)) == 3
    seen = []
    for index in range(3):
        batch = stream.batch(0, index)
        seen += batch.examples
        assert batch.images.min() >= -1
        assert batch.images.max() <= 1
        restored = torch.round((batch.images + 1) * 127.5).numpy().astype(np.uint8)
        assert np.array_equal(restored, store.pixels[batch.examples])
        assert [classes[label] for label in batch.labels.tolist()] == stream.names(batch.examples)
        again, shares = stream.batch(0, index), [stream.batch(0, index, rank, 2) for rank in range(2)]
        assert torch.equal(again.images, batch.images)
        assert sorted(shares[0].examples + shares[1].examples) == sorted(batch.examples)
    assert sorted(seen) == list(range(7))
    assert stream.batch(1, 0).examples != stream.batch(0, 0).examples
    whole = ImageStream(store, images_per_batch=7, seed=1).batch(0, 0)
    first, second = whole.split()
    assert (len(first), len(second)) == (4, 3)
    assert first.examples + second.examples == whole.examples
    assert torch.equal(torch.cat([first.labels, second.labels]), whole.labels)


def test_a_class_that_the_model_does_not_know_is_refused(tmp_path: Path, photos: Path) -> None:
    with pytest.raises(DataError, match="photos: has images of the class 'bird', which is not in train"):
        stored(tmp_path, ImageFolder(path=photos), classes=["cat", "dog"])

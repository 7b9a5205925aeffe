"""`data.kind: images`: images, each with the name of its class."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import BeforeValidator, Field
from torch import Tensor

from qkv.core.errors import UsageError
from qkv.data.arrays.repeats import count_repeated, hash_overlap, row_hashes
from qkv.data.arrays.stored import inputs_hash, is_up_to_date
from qkv.data.build import CountProgress
from qkv.data.check import advice_lines
from qkv.data.config import BatchConfig, DataConfig, as_list, data_kinds
from qkv.data.images.batch import ImageStream
from qkv.data.images.kinds import AnyImages
from qkv.data.images.store import ImagePart, ImageStore, build_image_store
from qkv.data.overlap import Overlap
from qkv.data.tasks.base import DataTask, data_tasks
from qkv.text.folder import TokenizerPair

SHOWN = 20
"""Classes that a report lists."""


@data_kinds.register
class ImagesConfig(DataConfig):
    """Images with labels."""

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"train": {"kind": "npz", "path": "train.npz"}}
    tokenizer_sides: ClassVar[tuple[frozenset[str], ...]] = (frozenset(),)

    kind: Literal["images"] = "images"
    train: Annotated[tuple[AnyImages, ...], BeforeValidator(as_list), Field(min_length=1)]
    """Images to learn from: one source or a list of them."""
    dev: AnyImages | None = None
    """Images to choose the best model by."""
    test: AnyImages | None = None
    """Images for the final score; training never reads them, `qkv evaluate RUN` measures on them."""
    holdout: int | None = Field(default=None, ge=1)
    """Without `dev`: this many images of `train` become it, always the same ones."""


@dataclass(frozen=True)
class ImagesCheck:
    """Statistics of all parts."""

    image_shape: tuple[int, int, int]
    """Channels, height and width."""
    classes: dict[str, dict[str, int]]
    """Part -> class -> number of images."""
    duplicates: dict[str, int]
    """Part -> images with the pixels of an earlier one."""
    overlaps: dict[str, Overlap]
    """Part -> images whose pixels train has, too."""
    advice: list[str] = field(default_factory=list)

    def with_advice(self, sentences: list[str]) -> "ImagesCheck":
        """The same with advice, one sentence each."""
        return replace(self, advice=sentences)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self)

    def render(self) -> str:
        """For people."""
        channels, height, width = self.image_shape
        lines = [f"images of {height} x {width} pixels, {'grey' if channels == 1 else 'colour'}"]
        for name, counts in self.classes.items():
            lines += ["", f"{name}: {sum(counts.values()):,} images of {len(counts):,} classes"]
            lines += [f"  {label}: {count:,}" for label, count in list(counts.items())[:SHOWN]]
            lines += ["  ..."] if len(counts) > SHOWN else []
            lines.append(f"  {self.duplicates[name]:,} exact duplicates")
        lines += [""] if self.overlaps else []
        lines += [own.line(name, "images") for name, own in self.overlaps.items()]
        return "\n".join([*lines, *advice_lines(self.advice)]) + "\n"


class ImagesTask(DataTask[ImagePart, ImageStore]):
    """See `DataTask`."""

    unit = "images"

    def __init__(self, data: ImagesConfig) -> None:
        self.data = data

    def parts(self, progress: CountProgress | None = None, with_test: bool = False) -> dict[str, ImagePart]:
        data = self.data
        held_out = frozenset() if data.holdout is None else self._held_out(data.holdout)
        parts = {"train": ImagePart(data.train, data.root, held_out)}
        if data.holdout is not None:
            parts["dev"] = replace(parts["train"], is_dev=True)
        elif data.dev is not None:
            parts["dev"] = ImagePart((data.dev,), data.root)
        if with_test and data.test is not None:
            parts["test"] = ImagePart((data.test,), data.root)
        for part in parts.values():
            for source in part.sources:
                source.files(part.root)
        return parts

    def prepare(
        self,
        parts: Mapping[str, ImagePart],
        tokenizers: TokenizerPair,
        folder: Path,
        progress: CountProgress | None = None,
    ) -> dict[str, ImageStore]:
        stores: dict[str, ImageStore] = {}
        for name, part in parts.items():
            classes = stores["train"].classes if "train" in stores else None
            files = [file for source in part.sources for file in source.files(part.root)]
            sources = [source.model_dump(mode="json") for source in part.sources]
            inputs = inputs_hash("images", [sources, sorted(part.held_out), part.is_dev, classes], files)
            if not is_up_to_date(folder / name, inputs):
                build_image_store(folder / name, part, inputs, classes, progress)
            stores[name] = ImageStore.open(folder / name)
        return stores

    def open(self, folder: Path) -> ImageStore:
        return ImageStore.open(folder)

    def stream(
        self, store: ImageStore, tokenizers: TokenizerPair, batch: BatchConfig, seed: int, sampling: bool = False
    ) -> ImageStream:
        return ImageStream(store, batch.single_tokens, seed)

    def check(
        self,
        stores: Mapping[str, ImageStore],
        tokenizers: TokenizerPair,
        batch: BatchConfig,
        seed: int = 0,
        progress: CountProgress = lambda done, total: None,
    ) -> ImagesCheck:
        hashes = {name: row_hashes(store.pixels, len(store), progress) for name, store in stores.items()}
        others = {name: own for name, own in hashes.items() if name != "train"}
        return ImagesCheck(
            image_shape=stores["train"].image_shape,
            classes={name: store.report.by_class for name, store in stores.items()},
            duplicates={name: count_repeated(own) for name, own in hashes.items()},
            overlaps={name: hash_overlap(own, hashes["train"]) for name, own in others.items()},
        )

    def batches(self, train: ImageStore, batch: BatchConfig) -> float:
        weighted = sum(own.weight * (own.stop - own.start) for own in train.ranges)
        return max(1.0, weighted / batch.single_tokens)

    def facts(self, train: ImageStore) -> dict[str, Any]:
        return {"labels": train.classes}

    def overlap(
        self, part: ImageStore, train: ImageStore, progress: CountProgress = lambda done, total: None
    ) -> Overlap:
        return hash_overlap(row_hashes(part.pixels, len(part)), row_hashes(train.pixels, len(train), progress))

    def frequencies(self, train: ImageStore, tokenizers: TokenizerPair) -> Tensor:
        return torch.from_numpy(np.bincount(train.labels, minlength=len(train.classes)))

    def _held_out(self, wanted: int) -> frozenset[int]:
        total = sum(source.count(self.data.root) for source in self.data.train)
        if wanted >= total:
            raise UsageError(f"data.holdout is {wanted:,}, but data.train has {total:,} images; leave some to train on")
        keys = np.random.PCG64(np.random.SeedSequence(0)).random_raw(total)
        return frozenset(np.argsort(keys, kind="stable")[:wanted].tolist())


data_tasks.register("images", ImagesTask)

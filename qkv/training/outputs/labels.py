"""The classes that a model says, beside those of the dev data."""

from collections.abc import Sequence

import torch

from qkv.data.batching import in_chunks
from qkv.data.images.batch import ImageStream
from qkv.models.base import Model
from qkv.models.vision.model import VisionModel
from qkv.training.outputs.base import Answer, DevData, OutputsKind, Tick, outputs


class ImageLabels:
    """The likeliest class of each image."""

    def __init__(self, dev: DevData) -> None:
        assert isinstance(dev.stream, ImageStream)
        self.stream = dev.stream

    def __len__(self) -> int:
        return len(self.stream.store)

    @torch.no_grad()
    def __call__(self, model: Model, chosen: Sequence[int], tick: Tick) -> list[Answer]:
        assert isinstance(model, VisionModel)
        classes, found = self.stream.store.classes, []
        for rows in in_chunks(chosen, self.stream.batch_tokens):
            said = model.class_logits(self.stream.images_of(rows).to(model.device)).argmax(dim=-1).tolist()
            names = zip(rows, said, self.stream.names(rows), strict=True)
            found += [Answer(f"image {row + 1}", classes[label], [name]) for row, label, name in names]
            tick(len(found), len(chosen))
        return found


outputs.register("classify", OutputsKind(("images",), ImageLabels))

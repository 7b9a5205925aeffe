"""How often a model names the right class, overall and class by class."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from qkv.data.batching import in_chunks
from qkv.data.images.batch import ImageStream
from qkv.data.images.store import ImageStore
from qkv.evaluation.report.tables import Table
from qkv.models.vision.model import VisionModel

AT_ONCE = 256
Counting = Callable[[int, int | None], None]


@dataclass(frozen=True)
class ClassEvaluation:
    """A confusion matrix, `confusion[true][said]`, and the mean negative log-likelihood of the true classes."""

    classes: list[str]
    confusion: list[list[int]]
    nll: float

    @property
    def images(self) -> int:
        return sum(map(sum, self.confusion))

    @property
    def accuracy(self) -> float:
        """Per cent."""
        return 100 * sum(row[number] for number, row in enumerate(self.confusion)) / self.images

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        counts = {"classes": self.classes, "confusion": self.confusion}
        return {"images": self.images, "accuracy": self.accuracy, "nll": self.nll, **counts}

    def table(self, name: str) -> Table:
        """For people; `name` is that of the data."""
        title = f"{self.images:,} images, {self.accuracy:.2f} % right, {self.nll:.4f} nats each"
        matrix = np.array(self.confusion)
        rows = []
        for number, label in enumerate(self.classes):
            own, right = int(matrix[number].sum()), int(matrix[number, number])
            wrong = np.where(np.arange(len(matrix)) == number, 0, matrix[number])
            mistaken = f"{self.classes[int(wrong.argmax())]} ({wrong.max()})" if wrong.any() else ""
            rows.append([label, f"{own:,}", f"{100 * right / own:.1f}" if own else "", mistaken])
        header = ["class", "images", "% right", "most often mistaken for"]
        return Table(f"{name}: {title}" if name else title, header, rows, {0, 3})


@torch.no_grad()
def evaluate_classes(model: VisionModel, store: ImageStore, counting: Counting) -> ClassEvaluation:
    """The model on all images of a store, whose classes are those of the model."""
    stream = ImageStream(store, AT_ONCE, seed=0)
    confusion = np.zeros((len(store.classes), len(store.classes)), dtype=np.int64)
    nll = 0.0
    for rows in in_chunks(range(len(store)), AT_ONCE):
        batch = stream.images_of(rows)
        log_probs = torch.log_softmax(model.class_logits(batch), dim=-1)
        nll -= float(log_probs.gather(1, batch.labels[:, None]).sum())
        np.add.at(confusion, (batch.labels.numpy(), log_probs.argmax(dim=-1).numpy()), 1)
        counting(rows[-1] + 1, len(store))
    return ClassEvaluation(store.classes, confusion.tolist(), nll / len(store))

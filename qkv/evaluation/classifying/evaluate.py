"""How often a model names the right class, overall and class by class."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from qkv.core.progress import Counting
from qkv.data.batching import in_chunks
from qkv.data.images.batch import ImageStream
from qkv.data.images.store import ImageStore
from qkv.evaluation.classifying.answers import Accuracy, accuracy_of, answer_row
from qkv.evaluation.report.tables import Table
from qkv.models.vision.model import VisionModel

AT_ONCE = 256


@dataclass(frozen=True)
class ClassEvaluation:
    """A confusion matrix, `confusion[true][said]`, and the mean negative log-likelihood of the true classes."""

    classes: list[str]
    confusion: list[list[int]]
    nll: float
    accuracy: Accuracy

    @property
    def images(self) -> int:
        return sum(map(sum, self.confusion))

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        counts = {"classes": self.classes, "confusion": self.confusion}
        return {"images": self.images, **self.accuracy.as_dict(), "nll": self.nll, **counts}

    def table(self, name: str) -> Table:
        """For people; `name` is that of the data."""
        title = f"{self.images:,} images, {self.accuracy}, {self.nll:.4f} nats each"
        pairs = zip(self.classes, self.confusion, strict=True)
        rows = [answer_row(label, dict(zip(self.classes, said, strict=True))) for label, said in pairs]
        header = ["class", "images", "% right", "most often mistaken for"]
        return Table(f"{name}: {title}" if name else title, header, rows, {0, 3})


@torch.no_grad()
def evaluate_classes(model: VisionModel, store: ImageStore, counting: Counting) -> ClassEvaluation:
    """The model on all images of a store, whose classes are those of the model."""
    stream = ImageStream(store, AT_ONCE, seed=0)
    confusion = np.zeros((len(store.classes), len(store.classes)), dtype=np.int64)
    nll, right = 0.0, list[int]()
    for rows in in_chunks(range(len(store)), AT_ONCE):
        batch = stream.images_of(rows)
        log_probs = torch.log_softmax(model.class_logits(batch), dim=-1)
        nll -= float(log_probs.gather(1, batch.labels[:, None]).sum())
        said = log_probs.argmax(dim=-1)
        right += (said == batch.labels).tolist()
        np.add.at(confusion, (batch.labels.numpy(), said.numpy()), 1)
        counting(rows[-1] + 1, len(store))
    accuracy = accuracy_of(right, [1] * len(store))
    return ClassEvaluation(store.classes, confusion.tolist(), nll / len(store), accuracy)

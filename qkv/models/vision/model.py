"""The Vision Transformer as a model that is trained, saved and asked for classes."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from qkv.data.images.batch import ImageBatch
from qkv.models.base import Adapted, Inference, Model, Output
from qkv.models.vision.classifier import VisionTransformer


class VisionModel(Model):
    """Batches of images to the states of their tokens; `class_logits` are those of their classes."""

    kind = "vision"

    def __init__(self, classifier: VisionTransformer) -> None:
        super().__init__()
        self.classifier = classifier

    def forward(self, batch: ImageBatch) -> Output:
        return Output(self.classifier.states(batch.images))

    def class_logits(self, batch: ImageBatch) -> Float[Tensor, "B classes"]:
        """Unnormalised log-probabilities of the classes."""
        return self.classifier(batch.images)

    @torch.no_grad()
    def adapted(self, other: Model, classes: Sequence[int] | None) -> Adapted:
        """Positions of another grid are interpolated; if the classes differ, the head stays new."""
        if not isinstance(other, VisionModel):
            return super().adapted(other, classes)
        own, theirs = self.classifier, other.classifier
        positions = {"classifier.embedding.positions": theirs.embedding.positions_for(own.embedding.grid)}
        if classes is None:
            head, remark = own.head.state_dict(), "has other classes, so the head is initialised from scratch"
        else:
            rows = torch.tensor(classes)
            head, remark = {name: weight[rows] for name, weight in theirs.head.state_dict().items()}, ""
        return Adapted(positions | {f"classifier.head.{name}": weight for name, weight in head.items()}, remark)

    def inference(self) -> Inference:
        return Inference(reason="a vision model writes no tokens, so it is not searched: use qkv classify")

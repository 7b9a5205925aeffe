"""The Vision Transformer as a model that is trained, saved and asked for classes."""

from jaxtyping import Float
from torch import Tensor

from qkv.data.images.batch import ImageBatch
from qkv.models.base import Inference, Model, Output
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

    def inference(self) -> Inference:
        return Inference(reason="a vision model writes no tokens, so it is not searched: use qkv classify")

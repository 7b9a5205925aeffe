"""Labels of texts, or tags of their words, beside those of the dev data."""

from collections.abc import Sequence
from itertools import chain

from qkv.data.tasks.labelled import LabelledStream
from qkv.models.base import Model
from qkv.training.outputs.base import Answer, DevData, OutputsKind, Tick, outputs
from qkv.translate.ask.labelling import predicted_labels

AT_ONCE = 64


class TextLabels:
    """One answer for each text."""

    def __init__(self, dev: DevData) -> None:
        assert isinstance(dev.stream, LabelledStream)
        self.dev = dev
        self.pairs = list(chain.from_iterable(dev.stream.store.chunks()))

    def __len__(self) -> int:
        return len(self.pairs)

    def __call__(self, model: Model, chosen: Sequence[int], tick: Tick) -> list[Answer]:
        found = list[Answer]()
        for first in range(0, len(chosen), AT_ONCE):
            some = [self.pairs[i] for i in chosen[first : first + AT_ONCE]]
            labels = predicted_labels(model, self.dev.tokenizers, [text for text, _ in some])
            golds = [self.dev.tokenizers.tgt.normalize(gold) for _, gold in some]
            found += [Answer(text, own.text, [gold]) for (text, _), gold, own in zip(some, golds, labels, strict=True)]
            tick(len(found), len(chosen))
        return found


outputs.register("label", OutputsKind(("labelled", "tagged"), TextLabels))

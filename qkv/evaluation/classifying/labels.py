"""How often a model names the right label of a text, or the right tag of a word."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any

from qkv.core.errors import DataError
from qkv.core.progress import Counting
from qkv.data.batching import in_chunks
from qkv.data.parts import CorpusPart
from qkv.data.tasks.labelled import one_tag_a_word
from qkv.evaluation.classifying.answers import Accuracy, accuracy_of, answer_row
from qkv.evaluation.files import header_remarks
from qkv.evaluation.report.tables import Table
from qkv.models.base import Model
from qkv.models.language.classify import Tagger
from qkv.text import TokenizerPair
from qkv.translate.ask.labelling import predicted_labels

AT_ONCE = 64
NOTHING = "(nothing)"
"""What is said of a word behind the last one that the model can read."""


@dataclass(frozen=True)
class LabelEvaluation:
    """What a model said of texts, or of their words."""

    unit: str
    """What has a label: texts or words."""
    texts: int
    said: Mapping[str, Counter[str]]
    """True label -> label that was said -> how often; the most frequent true label first."""
    accuracy: Accuracy
    exact: Accuracy
    """Of texts: every label is right."""
    remarks: tuple[str, ...] = ()
    """Warnings about the file."""

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        scores = {**self.accuracy.as_dict(), "exact": self.exact.value}
        return {"texts": self.texts, "labels_of": self.unit, **scores, "said": self.said}

    def table(self, name: str) -> Table:
        """For people; `name` is that of the data."""
        title = f"{sum(own.total() for own in self.said.values()):,} {self.unit}, {self.accuracy}"
        if self.unit == "words":
            title += f"; {self.texts:,} whole texts, {self.exact}"
        rows = [answer_row(label, own) for label, own in self.said.items()]
        header = ["label", self.unit, "% right", "most often mistaken for"]
        return Table(f"{name}: {title}" if name else title, header, rows, {0, 3})


def evaluate_labels(model: Model, tokenizers: TokenizerPair, part: CorpusPart, counting: Counting) -> LabelEvaluation:
    """The model on the texts of a part, also on those that are too long for training."""
    tags = isinstance(model, Tagger)
    pairs = _pairs(one_tag_a_word(part, tokenizers.tgt) if tags else part)
    said: dict[str, Counter[str]] = defaultdict(Counter)
    right, answers = list[int](), list[int]()
    for some in in_chunks(pairs, AT_ONCE):
        found = predicted_labels(model, tokenizers, [text for text, _ in some])
        for (_, target), own in zip(some, found, strict=True):
            both = list(_labels_of(tokenizers.tgt.normalize(target), own.text, tags))
            for true, other in both:
                said[true][other] += 1
            right.append(sum(true == other for true, other in both))
            answers.append(len(both))
        counting(len(answers), len(pairs))
    return LabelEvaluation(
        unit="words" if tags else "texts",
        texts=len(pairs),
        said=dict(sorted(said.items(), key=lambda label: -label[1].total())),
        accuracy=accuracy_of(right, answers),
        exact=accuracy_of([own == of for own, of in zip(right, answers, strict=True)], [1] * len(pairs)),
        remarks=tuple(chain.from_iterable(header_remarks(one, one.describe(part.root), pairs) for one in part.corpora)),
    )


def _labels_of(target: str, named: str, tags: bool) -> Iterator[tuple[str, str]]:
    """Each true label of a text, and what the model says."""
    return zip_longest(target.split(), named.split(), fillvalue=NOTHING) if tags else iter([(target, named)])


def _pairs(part: CorpusPart) -> list[tuple[str, str]]:
    """Texts with their labels; those without one are left out, as in training."""
    pairs = [(pair.src, pair.tgt) for pair in part.pairs() if pair.src.strip() and pair.tgt.strip()]
    if not pairs:
        names = " and ".join(corpus.describe(part.root) for corpus in part.corpora)
        raise DataError(f"{names}: holds no text with a label; give a file with at least one")
    return pairs

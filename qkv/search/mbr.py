"""Minimum Bayes risk decoding: the sample that is most similar to all others."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from qkv.search.base import Search, SearchTask, searches
from qkv.search.hypothesis import Hypothesis
from qkv.search.protocol import StepFunction
from qkv.search.sampling import Sampling, SamplingConfig

if TYPE_CHECKING:
    from qkv.models.saved.folder import SavedModel

Utility = Callable[[str, str], float]
"""The utility of a text, given a reference."""


@searches.register
class MbrConfig(SamplingConfig):
    """Of `samples` random outputs, the one with the highest mean utility with all others as references.

    The score is that mean (0 to 100). Ties go to the higher log p(Y | X).
    """

    kind: Literal["mbr"] = "mbr"
    samples: int = Field(default=16, ge=2, le=10_000)
    """Samples per sentence; the time is quadratic in it."""
    metric: Literal["chrf", "bleu"] = "chrf"
    """The utility: a sentence score of sacreBLEU."""

    def build(self, saved: "SavedModel | None" = None) -> Search:
        return self.within_window(MbrSearch(*self.sampling, metric=self.metric))


class MbrSearch(Sampling):
    """Minimum Bayes risk; see `MbrConfig` for what each argument does."""

    def __init__(
        self,
        samples: int = 16,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 0,
        no_repeat_ngram: int = 0,
        metric: str = "chrf",
    ) -> None:
        super().__init__(samples, temperature, top_k, top_p, seed, no_repeat_ngram)
        self.metric = metric

    def run(self, steps: StepFunction, task: SearchTask) -> list[list[Hypothesis]]:
        self.refuse(task, "mbr")
        each, metric = task.detokenize or [_ids_as_words] * len(task.limits), utility(self.metric)
        found = []
        for samples, detokenize in zip(self.draw(steps, task), each, strict=True):
            texts = [detokenize(sample.tokens) for sample in samples]
            means = mean_utilities(texts, metric)
            best: dict[str, Hypothesis] = {}
            for index in sorted(range(len(samples)), key=lambda each: (-means[each], -samples[each].score)):
                best.setdefault(texts[index], replace(samples[index], score=means[index]))
            found.append(list(best.values())[: task.nbest])
        return found


def utility(metric: str) -> Utility:
    """The sentence score of sacreBLEU's `metric`."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    scorer = CHRF() if metric == "chrf" else BLEU(effective_order=True)
    return lambda text, reference: float(scorer.sentence_score(text, [reference]).score)


def mean_utilities(texts: Sequence[str], metric: Utility) -> list[float]:
    """For each text the mean of metric(text, other) over all others; duplicates are compared once."""
    counts = Counter(texts)
    means = {}
    for text in counts:
        values = [(count - (other == text)) * metric(text, other) for other, count in counts.items()]
        means[text] = sum(values) / (len(texts) - 1)
    return [means[text] for text in texts]


def _ids_as_words(ids: list[int]) -> str:
    return " ".join(map(str, ids))

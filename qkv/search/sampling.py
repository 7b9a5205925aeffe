"""Sampling from p(Y | X), optionally truncated to the most probable tokens."""

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from qkv.core.errors import UsageError
from qkv.search.base import Search, SearchTask, SteppedSearch, StepwiseSearch, searches
from qkv.search.constraints import Rules
from qkv.search.hypothesis import Hypothesis, not_a_number
from qkv.search.protocol import StepFunction
from qkv.search.walk import Walker, refuse_required, walk

if TYPE_CHECKING:
    from qkv.models.saved.folder import SavedModel


class SamplingConfig(SteppedSearch):
    """Sampling settings: log p / temperature, then `top_k`, then `top_p`, then one random token.

    The random numbers depend only on the seed, the source and the index of the sample: neither the batch nor the order
    of the sentences changes the samples.
    """

    samples: int = Field(default=1, ge=1, le=1_000_000)
    """Samples per sentence."""
    temperature: float = Field(default=1.0, ge=0.001, le=1000)
    """Below 1 sharpens the distribution, above 1 flattens it."""
    top_k: int = Field(default=0, ge=0)
    """Only the k most probable tokens (ties by lowest id); 0: all."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Only the most probable tokens that together have at least this probability."""
    seed: int = Field(default=0, ge=-(2**63), le=2**63 - 1)
    """Seed of the random numbers."""

    @property
    def rows(self) -> int:
        return self.samples

    @property
    def sampling(self) -> tuple[int, float, int, float, int, int]:
        """The arguments of `Sampling`."""
        return self.samples, self.temperature, self.top_k, self.top_p, self.seed, self.no_repeat_ngram


class Sampling(StepwiseSearch):
    """Draws outputs; see `SamplingConfig` for what each argument does."""

    def __init__(
        self,
        samples: int = 1,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 0,
        no_repeat_ngram: int = 0,
    ) -> None:
        self.samples, self.temperature, self.top_k, self.top_p = samples, temperature, top_k, top_p
        self.seed, self.no_repeat_ngram = seed, no_repeat_ngram

    def refuse(self, task: SearchTask, kind: str) -> None:
        """Raise UsageError if the task asks for what samples cannot give."""
        if task.nbest > self.samples:
            raise UsageError(f"{self.samples} samples cannot give {task.nbest} hypotheses: raise the search's samples")
        refuse_required(task, kind)

    def draw(self, steps: StepFunction, task: SearchTask) -> list[list[Hypothesis]]:
        """All samples of each sentence, in order; the score is log p(Y | X)."""
        rules = Rules(task, self.no_repeat_ngram)
        sources = [ids[keep].tolist() for ids, keep in zip(task.src, task.src_keep, strict=True)]
        dice = [[_Dice(f"{self.seed} {copy} {ids}") for copy in range(self.samples)] for ids in sources]

        def choose(log_probs: Tensor, rows: Sequence[Walker]) -> tuple[list[int], list[float]]:
            numbers = log_probs.cpu().numpy()
            drawn = [
                self._token(numbers[row], dice[each.sentence][each.copy].at(each.partial.length)) if each.walking else 0
                for row, each in enumerate(rows)
            ]
            return drawn, numbers[np.arange(len(drawn)), drawn].tolist()

        return walk(steps, task, rules, self.samples, choose)

    def _token(self, log_probs: NDArray[np.float32], uniform: float) -> int:
        """The token at quantile `uniform` of the distribution, in the order of ids."""
        highest = log_probs.max()
        if np.isnan(highest):
            raise not_a_number()
        if highest == -np.inf:
            return 0  # no token is allowed, as its log p says
        weights = np.exp((log_probs - highest) / np.float32(self.temperature))
        ids = likeliest(weights, self.top_k, self.top_p)
        return int(ids[quantile(weights[ids], uniform)])


def quantile(weights: NDArray[np.float32], uniform: float) -> int:
    """The index at quantile `uniform` in [0, 1) of the distribution that is proportional to `weights`."""
    reached = weights.cumsum(dtype=np.float64)
    # Rounding must not select an index after the last one with a positive weight.
    target = min(uniform * reached[-1], np.nextafter(reached[-1], 0))
    return int(reached.searchsorted(target, side="right"))


class _Dice:
    """One random number per step; steps that are not requested are skipped."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)
        self._thrown = 0

    def at(self, step: int) -> float:
        """For the steps in their order, counted from 0."""
        for _ in range(step - self._thrown):
            self._random.random()
        self._thrown = step + 1
        return self._random.random()


def likeliest(weights: NDArray[np.float32], top_k: int, top_p: float) -> NDArray[np.int64]:
    """The ids, in ascending order, of the `top_k` largest weights, and of these the fewest that have `top_p` of all.

    The id that crosses `top_p` is kept; ties go to the lowest ids.
    """
    ids = np.arange(len(weights))
    if 0 < top_k < len(weights):
        least = np.partition(weights, -top_k)[-top_k]
        ids = _descending(weights, (weights >= least).nonzero()[0])[:top_k]
    if top_p < 1:
        wanted = top_p * weights[ids].sum(dtype=np.float64)
        # All smaller ones together have less than the rest, so they need not be sorted.
        least = (1 - top_p) * weights[ids].sum(dtype=np.float64) / len(ids)
        ids = _descending(weights, ids[weights[ids] >= least])
        reached = weights[ids].cumsum(dtype=np.float64)
        ids = ids[: int(reached.searchsorted(wanted)) + 1]
    return np.sort(ids)


def _descending(weights: NDArray[np.float32], ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """In descending order, ties by lowest id."""
    ids = np.sort(ids)
    return ids[np.argsort(-weights[ids], kind="stable")]


@searches.register
class SampleConfig(SamplingConfig):
    """Random outputs, the most probable of them first. The score is log p(Y | X)."""

    kind: Literal["sample"] = "sample"

    def build(self, saved: "SavedModel | None" = None) -> Search:
        return self.within_window(SampleSearch(*self.sampling))


class SampleSearch(Sampling):
    """Random outputs, the most probable of them first."""

    def run(self, steps: StepFunction, task: SearchTask) -> list[list[Hypothesis]]:
        self.refuse(task, "sample")
        drawn = self.draw(steps, task)
        return [sorted(each, key=lambda hypothesis: -hypothesis.score)[: task.nbest] for each in drawn]

"""Step functions without a model: what may follow is a table that depends on the source and on what was said."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import torch
from torch import Tensor

from qkv.core.errors import UsageError
from qkv.data.batch import padded
from qkv.search.base import LengthLimits, SearchConfig, SearchTask
from qkv.search.hypothesis import Hypothesis
from qkv.search.models import force_by_steps
from qkv.search.protocol import ForcedOutput, StepFunction, StepOutput
from qkv.text import SPECIAL
from qkv.text.special import NEVER_OUTPUT

Ids = tuple[int, ...]
Table = Callable[[Ids, Ids], Sequence[float]]
"""(source, what was said) -> log p of each token."""
END = SPECIAL.eos


@dataclass(frozen=True)
class TableState:
    sources: list[Ids]
    """Of each sentence."""
    rows: list[tuple[int, Ids]]
    """The sentence of each row and what it said."""

    def reorder(self, rows: Tensor, sentences: Tensor) -> "TableState":
        """Checks what a search promises: rows of a new sentence come from the sentence that it was."""
        kept, beams = sentences.tolist(), len(rows) // len(sentences)
        assert len(rows) == beams * len(kept)
        chosen = [self.rows[row] for row in rows.tolist()]
        for row, (sentence, _) in enumerate(chosen):
            assert sentence == kept[row // beams]
        moved = [(row // beams, said) for row, (_, said) in enumerate(chosen)]
        return TableState([self.sources[sentence] for sentence in kept], moved)


class TableSteps:
    """Counts its steps and rows."""

    def __init__(self, table: Table, attention: Table | None = None) -> None:
        self.table, self.attention = table, attention
        self.steps, self.most_rows, self.all_rows = 0, 0, 0

    def start(self, src: Tensor, src_keep: Tensor, beams: int = 1) -> TableState:
        sources = [tuple(ids[keep].tolist()) for ids, keep in zip(src, src_keep, strict=True)]
        return TableState(sources, [(index, ()) for index in range(len(sources)) for _ in range(beams)])

    def step(self, tokens: Tensor, state: TableState) -> tuple[StepOutput, TableState]:
        self.steps += 1
        self.most_rows = max(self.most_rows, len(tokens))
        self.all_rows += len(tokens)
        rows = [(index, (*said, token)) for (index, said), token in zip(state.rows, tokens.tolist(), strict=True)]
        log_probs = torch.tensor([self.table(state.sources[index], said[1:]) for index, said in rows])
        return StepOutput(log_probs, self._attention(state.sources, rows)), TableState(state.sources, rows)

    def force(self, tokens: Tensor, state: TableState, beams: int) -> tuple[ForcedOutput, TableState]:
        return force_by_steps(self, tokens, state, beams)

    def _attention(self, sources: list[Ids], rows: list[tuple[int, Ids]]) -> Tensor | None:
        if self.attention is None:
            return None
        weights = [self.attention(sources[index], said[1:]) for index, said in rows]
        return torch.tensor([[*each, *[0.0] * (max(map(len, sources)) - len(each))] for each in weights])


def random_table(seed: int, vocab: int, end: float = 0.0, grain: float = 0.0) -> Table:
    """Normalised; `end` more for END. With a `grain` all log p are multiples of it (not normalised): many are equal."""

    @cache
    def table(source: Ids, said: Ids) -> list[float]:
        chance = random.Random(f"{seed} {source} {said}")
        logits = [chance.gauss(0, 1.5) + (end if token == END else 0) for token in range(vocab)]
        if grain:
            logits = [-grain * (abs(logit) // grain) for logit in logits]
        for token in NEVER_OUTPUT:
            logits[token] = -math.inf
        if grain:
            return logits
        total = math.log(sum(math.exp(logit) for logit in logits))
        # In single precision, as a model gives them.
        return torch.tensor([logit - total for logit in logits]).tolist()

    return table


def random_attention(seed: int) -> Table:
    """Weights of a softmax over the source."""

    @cache
    def weights(source: Ids, said: Ids) -> list[float]:
        chance = random.Random(f"attention {seed} {source} {said}")
        return torch.tensor([chance.gauss(0, 1) for _ in source]).softmax(0).tolist()

    return weights


def random_sources(count: int, seed: int = 0, longest: int = 6) -> list[list[int]]:
    chance = random.Random(seed)
    return [[*(chance.randrange(5, 23) for _ in range(chance.randint(0, longest))), END] for _ in range(count)]


def task_of(sources: Sequence[Sequence[int]], limits: LengthLimits | SearchConfig, **others: Any) -> SearchTask:
    """The same limits for all, or those that a search has for each."""
    src, src_keep = padded([list(ids) for ids in sources], SPECIAL.pad)
    each = [limits.limits(len(ids)) if isinstance(limits, SearchConfig) else limits for ids in sources]
    return SearchTask(src, src_keep, SPECIAL, each, **others)


@dataclass(frozen=True)
class Output:
    """A possible output: the definition of what searches look for."""

    tokens: Ids
    ended: bool
    token_scores: list[float]

    @property
    def total(self) -> float:
        return sum(self.token_scores)


def every_output(table: Table, source: Ids, vocab: int, max_length: int) -> list[Output]:
    """All that end within `max_length` steps, END among them, and all that have `max_length` tokens and no END."""
    words = [token for token in range(vocab) if token not in (*NEVER_OUTPUT, END)]
    found = []
    for length in range(max_length + 1):
        for tokens in product(words, repeat=length):
            whole = tokens if length == max_length else (*tokens, END)
            scores = [table(source, whole[:place])[token] for place, token in enumerate(whole)]
            found.append(Output(tokens, length < max_length, scores))
    return found


@dataclass(frozen=True)
class OnlySteps:
    """A model that is nothing but its step function."""

    function: StepFunction
    tgt_limit: int | None = None

    def steps(self, attention: bool) -> StepFunction:
        return self.function

    def blocks(self, attention: bool) -> Any:
        raise UsageError("it has no blocks")

    def parallel(self) -> Any:
        raise UsageError("it fills no canvas")


def run_search(search: SearchConfig, steps: StepFunction, task: SearchTask) -> list[list[Hypothesis]]:
    """What a search finds by a step function."""
    return search.build().search(task, OnlySteps(steps))

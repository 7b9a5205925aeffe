"""Drafters whose quality is known, and blocks that count their work."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from qkv.search.base import SearchTask
from qkv.search.greedy import GreedyConfig, greedy_rules
from qkv.search.hypothesis import Hypothesis
from qkv.search.protocol import BlockFunction, BlockOutput, BlocksState, StepFunction
from qkv.search.speculative.drafters.base import Checked, Drafter, Drafts, DraftSources
from qkv.search.speculative.loop import DraftPace, FullPace, draft_and_verify
from qkv.text import SPECIAL
from tests.support.tables import run_search

Ids = tuple[int, ...]


class KnownDrafts:
    """What follows in a given output, each token wrong with some probability."""

    def __init__(self, outputs: Sequence[Sequence[int]], mistakes: float, vocab: int, seed: int) -> None:
        self.outputs, self.mistakes, self.vocab = outputs, mistakes, vocab
        self.chance = random.Random(seed)
        self.told: list[Checked] = []

    def propose(self, sentence: int, kept: Sequence[int], count: int) -> Sequence[int]:
        right = self.outputs[sentence][len(kept) : len(kept) + count]
        return [self._other(token) if self.chance.random() < self.mistakes else token for token in right]

    def _other(self, token: int) -> int:
        return self.chance.choice([other for other in range(5, self.vocab) if other != token])

    def learn(self, checked: Checked) -> None:
        self.told.append(checked)


class KnownDrafter:
    """Knows the output of every source: an oracle for mistakes = 0, always wrong for mistakes = 1."""

    def __init__(self, outputs: Mapping[Ids, Sequence[int]], mistakes: float, vocab: int, seed: int = 0) -> None:
        self.outputs, self.mistakes, self.vocab, self.seed = outputs, mistakes, vocab, seed

    def begin(self, sources: DraftSources) -> Drafts:
        known = [[*self.outputs[tuple(ids)], SPECIAL.eos] for ids in sources.ids()]
        return KnownDrafts(known, self.mistakes, self.vocab, self.seed)


class CountingBlocks:
    """Passes on what it is asked, and counts the passes and their positions."""

    def __init__(self, blocks: BlockFunction) -> None:
        self.blocks = blocks
        self.shapes: list[tuple[int, int]] = []
        self.furthest = 0
        """The most tokens that a row was ever given."""

    def start(self, src: Tensor, src_keep: Tensor) -> tuple[Tensor, BlocksState]:
        return self.blocks.start(src, src_keep)

    def extend(self, tokens: Tensor, state: Any) -> tuple[BlockOutput, BlocksState]:
        self.shapes.append((tokens.shape[0], tokens.shape[1]))
        self.furthest = max(self.furthest, max(state.lengths) + tokens.shape[1])
        return self.blocks.extend(tokens, state)


def drafted(
    blocks: BlockFunction,
    drafter: Drafter,
    task: SearchTask,
    pace: DraftPace | None = None,
    search: GreedyConfig | None = None,
) -> list[Hypothesis]:
    rules = greedy_rules(task, search.no_repeat_ngram if search else 0)
    return [best for (best,) in draft_and_verify(blocks, drafter, pace or FullPace(4), task, rules)]


def greedy(steps: StepFunction, task: SearchTask, search: GreedyConfig | None = None) -> list[Hypothesis]:
    return [best for (best,) in run_search(search or GreedyConfig(), steps, task)]


def outputs_by_source(task: SearchTask, found: Sequence[Hypothesis]) -> dict[Ids, list[int]]:
    sources = [tuple(ids[keep].tolist()[:-1]) for ids, keep in zip(task.src, task.src_keep, strict=True)]
    return dict(zip(sources, (each.tokens for each in found), strict=True))


def assert_equal_hypotheses(found: Sequence[Hypothesis], wanted: Sequence[Hypothesis]) -> None:
    """The same tokens and ends; scores up to rounding."""
    assert [(each.tokens, each.ended) for each in found] == [(each.tokens, each.ended) for each in wanted]
    ours, theirs = (torch.tensor([score for each in some for score in each.token_scores]) for some in (found, wanted))
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)
    ours, theirs = (torch.tensor([each.score for each in some]) for some in (found, wanted))
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=0)

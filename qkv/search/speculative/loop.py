"""Speculative decoding: the exact output of greedy search, several tokens per pass.

With g(prefix) = argmax p(y | prefix, X), one wide pass over prefix and draft d_1 ... d_k gives g(prefix),
g(prefix d_1), ..., g(prefix d_1 ... d_k). The longest d_1 ... d_m with d_i = g(prefix d_1 ... d_i-1) is kept, and
g(prefix d_1 ... d_m) after it. So the output is always that of greedy search, whatever
was drafted.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Protocol

import torch
from torch import Tensor

from qkv.search.base import SearchTask
from qkv.search.constraints import Row, Rules
from qkv.search.hypothesis import Hypothesis, Partial, first_max
from qkv.search.protocol import BlockFunction, BlockOutput
from qkv.search.speculative.drafters.base import Checked, Drafter, Drafts, DraftSources
from qkv.search.walk import Walker, go

OVERHEAD = 16.0
"""The fixed cost of a pass, in positions: with few rows, most of a pass is reading the weights."""
FIRST_GUESS = 0.8
"""Prior acceptance rate of a draft token."""
TRUST = 3.0
"""Weight of the prior, in passes."""
MEMORY = 0.8
"""Decay of the statistics per pass."""
HOPE = 0.005
"""Drift towards the prior with each pass without a draft, so that drafting is tried again."""

Outcome = tuple[int, int]
"""Of one draft: the numbers of accepted and of drafted tokens."""


class DraftPace(Protocol):
    """Chooses the length of drafts; outputs never depend on it."""

    def length(self, rows: int) -> int:
        """The number of tokens to draft for each of `rows` sentences."""

    def saw(self, outcomes: Sequence[Outcome]) -> None:
        """Called after a pass, with the outcome of each row's draft."""


class FullPace:
    """Always the maximum length."""

    def __init__(self, block: int) -> None:
        self.block = block

    def length(self, rows: int) -> int:
        return self.block

    def saw(self, outcomes: Sequence[Outcome]) -> None:
        pass


class AdaptivePace:
    """The length k with the most tokens for the work:

        max_k (1 + p_1 + p_1 p_2 + ... + p_1 ... p_k) rows / (overhead + (1 + k) rows)

    where p_j, the acceptance rate of token j of a draft if those before it are accepted, is a decaying mean.
    A drafter that is always wrong is soon not used, and with many rows, where a position costs as much as in a step,
    only nearly certain drafts pay.
    """

    def __init__(self, block: int) -> None:
        self.block = block
        self.right, self.tried = [TRUST * FIRST_GUESS] * block, [TRUST] * block

    def length(self, rows: int) -> int:
        best, longest = 1 / (OVERHEAD + rows), 0
        tokens = sure = 1.0
        for place in range(self.block):
            sure *= self.right[place] / self.tried[place]
            tokens += sure
            gain = tokens / (OVERHEAD + (2 + place) * rows)
            if gain > best:
                best, longest = gain, place + 1
        return longest

    def saw(self, outcomes: Sequence[Outcome]) -> None:
        if not any(drafted for _, drafted in outcomes):
            self.right[0] += HOPE * (FIRST_GUESS * self.tried[0] - self.right[0])
        for place in range(self.block):
            seen = [right > place for right, drafted in outcomes if drafted > place and right >= place]
            if not seen:
                break
            # Every pass counts the same, however many rows it has.
            self.right[place] = MEMORY * self.right[place] + sum(seen) / len(seen)
            self.tried[place] = MEMORY * self.tried[place] + 1


@dataclass(eq=False, slots=True)
class DraftedRow:
    """One sentence that is being decoded."""

    walker: Walker
    number: int
    """Its index for the drafter."""
    kept: list[int] = field(default_factory=list)
    guess: list[int] = field(default_factory=list)
    """The draft of this pass, without END."""
    right: int = 0
    """The number of its tokens that were accepted."""
    passes: int = 0

    @property
    def sentence(self) -> int:
        return self.walker.sentence


@torch.inference_mode()
def draft_and_verify(
    blocks: BlockFunction, drafter: Drafter, pace: DraftPace, task: SearchTask, rules: Rules
) -> list[list[Hypothesis]]:
    """One hypothesis per sentence, with its number of passes."""
    walkers = [Walker(index, 0, Partial()) for index in range(len(task.limits))]
    able = [walker for walker in walkers if task.limits[walker.sentence].max_length]
    rows = [DraftedRow(walker, number) for number, walker in enumerate(able)]
    passes = [0] * len(walkers)
    live = rows
    if live:
        src, src_keep = task.sources([row.sentence for row in live])
        memory, state = blocks.start(src, src_keep)
        # A drafter that does not pay need not read the sources.
        drafts = drafter.begin(DraftSources(src, src_keep, memory)) if pace.length(len(live)) else None
    while live:
        for row, length in zip(live, repeat(pace.length(len(live)))):
            row.guess = _guess(drafts, row, length, task)
        output, after = blocks.extend(_tokens(live, task), state)
        said, scores = _choose(output, live, rules)
        for place, row in enumerate(live):
            _keep(row, said[place], scores[place], None if output.attention is None else output.attention[place], task)
        pace.saw([(row.right, len(row.guess)) for row in live])
        task.after_step()
        going = [place for place, row in enumerate(live) if row.walker.walking]
        state = after.truncate([length + 1 + row.right for length, row in zip(state.lengths, live, strict=True)])
        if drafts is not None and going:
            drafts.learn(_checked(live, said, output, going))
        if len(going) < len(live):
            live = [live[place] for place in going]
            state = state.select(going) if going else state
    for row in rows:
        passes[row.sentence] = row.passes
    lengths = task.src_lengths()
    return [
        [replace(each.partial.hypothesis(each.partial.total, each.ended, lengths[each.sentence]), passes=count)]
        for each, count in zip(walkers, passes, strict=True)
    ]


def _guess(drafts: Drafts | None, row: DraftedRow, length: int, task: SearchTask) -> list[int]:
    """The draft, cut at END and at the maximum length; the pass itself decides whether END follows."""
    remaining = task.limits[row.sentence].max_length - len(row.kept) - 1
    count = min(length, remaining)
    if drafts is None or count < 1:
        return []
    guess = list(drafts.propose(row.number, row.kept, count))[:count]
    return guess[: guess.index(task.special.eos)] if task.special.eos in guess else guess


def _tokens(live: Sequence[DraftedRow], task: SearchTask) -> Tensor:
    """[R, W]: the last token of each row and its draft, padded to the longest."""
    width = 1 + max(len(row.guess) for row in live)
    given = [[row.kept[-1] if row.kept else task.special.bos, *row.guess] for row in live]
    filled = [[*tokens, *[task.special.pad] * (width - len(tokens))] for tokens in given]
    return torch.tensor(filled, device=task.src.device)


def _choose(output: BlockOutput, live: Sequence[DraftedRow], rules: Rules) -> tuple[list[list[int]], list[list[float]]]:
    """The choice of greedy search at each position of each row, and its log p."""
    width, log_probs = output.log_probs.shape[1], output.log_probs.flatten(0, 1)
    if rules.active:
        log_probs = rules.apply(log_probs, [place for row in live for place in _places(row, width)])
    said, scores = first_max(log_probs)
    starts = range(0, len(said), width)
    return [said[start : start + width] for start in starts], [scores[start : start + width] for start in starts]


def _places(row: DraftedRow, width: int) -> list[Row]:
    """The output before each position of a row, if the draft is right so far."""
    partial = row.walker.partial
    found: list[Row] = [(row.sentence, partial)]
    for token in row.guess:
        partial = partial.extended(token, 0.0, None)
        found.append((row.sentence, partial))
    return [*found, *[(row.sentence, None)] * (width - len(found))]


def _keep(
    row: DraftedRow, said: Sequence[int], scores: Sequence[float], attention: Tensor | None, task: SearchTask
) -> None:
    """Accept the draft as far as it is right, and one more token."""
    row.passes += 1
    row.right = 0
    while True:
        weights = None if attention is None else attention[row.right]
        go(row.walker, said[row.right], scores[row.right], weights, task)
        if not row.walker.walking:
            return
        row.kept.append(said[row.right])
        if row.right == len(row.guess) or row.guess[row.right] != said[row.right]:
            return
        row.right += 1


def _checked(live: Sequence[DraftedRow], said: list[list[int]], output: BlockOutput, going: list[int]) -> Checked:
    decoded = output.decoded if len(going) == len(live) else output.decoded[going]
    rows = [live[place] for place in going]
    words = [said[place][: len(row.guess) + 1] for place, row in zip(going, rows, strict=True)]
    return Checked([row.number for row in rows], words, [row.right for row in rows], decoded)

"""Token-by-token generation without a beam, shared by greedy search and sampling; forced prefixes in wide passes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from qkv.core.errors import UsageError
from qkv.core.state import StepState
from qkv.search.base import Constraints, SearchTask
from qkv.search.constraints import Rules
from qkv.search.hypothesis import Hypothesis, Partial
from qkv.search.protocol import StepFunction

LEAST = 8
"""Shorter prefixes are not worth a pass."""
APART = 64
"""The maximum difference in length of the prefixes of a batch."""


def begin(
    steps: StepFunction, task: SearchTask, sentences: Sequence[int], beams: int
) -> tuple[StepState, list[int], list[Partial]]:
    """Read the sources of `sentences` and as much of their prefixes as can be read at once.

    Returns the state, and for each sentence the next input token of its rows and their output so far.
    """
    state = steps.start(*task.sources(sentences), beams=beams)
    unbegun = [task.special.bos] * len(sentences), [Partial() for _ in sentences]
    width = _common_width(task, sentences)
    if width < LEAST:
        return state, *unbegun
    prefixes = [list(task.constraints[index].prefix[:width]) for index in sentences]
    tokens = torch.tensor([[task.special.bos, *prefix] for prefix in prefixes], device=task.src.device)
    output, after = steps.force(tokens, state, beams)
    if not bool(output.log_probs.isfinite().all()):
        # A token with probability 0 ends the search at its step.
        return state, *unbegun
    task.after_step()
    written = []
    for place, prefix in enumerate(prefixes):
        partial = Partial()
        rows = [None] * width if output.attention is None else output.attention[place].unbind()
        for token, score, row in zip(prefix, output.log_probs[place].tolist(), rows, strict=True):
            partial = partial.extended(token, score, row)
        written.append(partial)
    return after, [prefix[-1] for prefix in prefixes], written


def _common_width(task: SearchTask, sentences: Sequence[int]) -> int:
    """The number of tokens that all these sentences are forced to begin with, but for the last step of each."""
    if not task.constraints:
        return 0
    return min(min(len(task.constraints[index].prefix), task.limits[index].max_length - 1) for index in sentences)


def grouped(constraints: Sequence[Constraints]) -> list[list[int]]:
    """Group sentences whose prefixes have about the same length."""
    groups: list[list[int]] = []
    shortest = 0
    for index in sorted(range(len(constraints)), key=lambda each: len(constraints[each].prefix)):
        length = len(constraints[index].prefix)
        if not groups or length > shortest + APART:
            groups.append([])
            shortest = length
        groups[-1].append(index)
    return groups


@dataclass(eq=False, slots=True)
class Walker:
    """One partial output."""

    sentence: int
    copy: int
    """Its index among the outputs of its sentence."""
    partial: Partial
    walking: bool = True
    ended: bool = False


Choose = Callable[[Tensor, Sequence[Walker]], tuple[list[int], list[float]]]
"""(log p [R, V], rows) -> the next token of each row and its log p; -inf: no token is allowed."""


@torch.no_grad()
def walk(steps: StepFunction, task: SearchTask, rules: Rules, copies: int, choose: Choose) -> list[list[Hypothesis]]:
    """`copies` outputs per sentence; their score is log p(Y | X). Finished sentences leave the batch."""
    walkers = [[Walker(index, copy, Partial()) for copy in range(copies)] for index in range(len(task.limits))]
    live = [index for index, limits in enumerate(task.limits) if limits.max_length]
    rows = [walker for index in live for walker in walkers[index]]
    if rows:
        state, first, written = begin(steps, task, live, copies)
        tokens = torch.tensor(first, device=task.src.device).repeat_interleave(copies)
        for index, partial in zip(live, written, strict=True):
            for walker in walkers[index]:
                walker.partial = partial
    while rows:
        output, state = steps.step(tokens, state)
        log_probs = output.log_probs
        if rules.active:
            log_probs = rules.apply(
                log_probs, [(each.sentence, each.partial if each.walking else None) for each in rows]
            )
        said, scores = choose(log_probs, rows)
        for row, walker in enumerate(rows):
            if walker.walking:
                attention = None if output.attention is None else output.attention[row]
                go(walker, said[row], scores[row], attention, task)
                if task.watch and walker.copy == 0:
                    task.watch(walker.sentence, walker.partial.tokens())
        task.after_step()
        places = [place for place, index in enumerate(live) if any(each.walking for each in walkers[index])]
        if len(places) < len(live):
            kept = [place * copies + copy for place in places for copy in range(copies)]
            live, rows = [live[place] for place in places], [rows[row] for row in kept]
            if rows:
                state = state.reorder(_index(kept, tokens), _index(places, tokens))
        tokens = _index([max(walker.partial.token, 0) for walker in rows], tokens)
    lengths = task.src_lengths()
    return [
        [each.partial.hypothesis(each.partial.total, each.ended, lengths[each.sentence]) for each in group]
        for group in walkers
    ]


def refuse_required(task: SearchTask, kind: str) -> None:
    """Reject required sequences: they need hypotheses that differ in how much of them they contain."""
    if any(constraints.required for constraints in task.constraints):
        raise UsageError(f"the search kind {kind} cannot take required words: use the kind beam")


def go(walker: Walker, token: int, score: float, attention: Tensor | None, task: SearchTask) -> None:
    """One step of one output."""
    if score == -torch.inf:
        walker.walking = False
        return
    walker.partial = walker.partial.extended(token, score, attention)
    walker.ended = token == task.special.eos
    walker.walking = not walker.ended and walker.partial.length < task.limits[walker.sentence].max_length


def _index(numbers: list[int], like: Tensor) -> Tensor:
    return torch.tensor(numbers, dtype=torch.long, device=like.device)

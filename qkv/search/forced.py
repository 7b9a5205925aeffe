"""Forced prefixes: the model reads them in one pass, not token by token.

The prefixes of a batch are read together up to the length of the shortest one. The rest of the longer ones is forced
step by step; so sentences whose prefixes differ much in length go to separate batches.
"""

from collections.abc import Sequence

import torch

from qkv.search.base import Constraints, SearchTask
from qkv.search.hypothesis import Partial
from qkv.search.protocol import StepFunction, StepState

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

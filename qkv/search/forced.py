"""Beginnings that are given: a model reads them in wide passes, not token by token.

The prefixes of a batch are read together as far as all its sentences have one. What is left of the longer ones is
forced step by step, as any rule is; so sentences whose prefixes differ much in length are decoded apart.
"""

from collections.abc import Sequence

import torch

from qkv.models.base import IncrementalState
from qkv.search.base import Constraints, SearchTask
from qkv.search.hypothesis import Partial
from qkv.search.steps import StepFunction

LEAST = 8
"""A shorter prefix is not worth a pass of its own."""
APART = 64
"""How much longer than the shortest one a prefix of the same batch may be."""


def begin(
    steps: StepFunction, task: SearchTask, sentences: Sequence[int], beams: int
) -> tuple[IncrementalState, list[int], list[Partial]]:
    """Read the sources of `sentences` and as much of their prefixes as can be read at once.

    Gives the state, and for each sentence the token that its rows read next and what they have written.
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
        # A token that the model never says ends the search at its step, which is found out there.
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
    """How many tokens all these sentences must begin with; their last step is left to the search."""
    if not task.constraints:
        return 0
    return min(min(len(task.constraints[index].prefix), task.limits[index].max_length - 1) for index in sentences)


def grouped(constraints: Sequence[Constraints]) -> list[list[int]]:
    """Which sentences are decoded together: those whose prefixes are about equally long."""
    groups: list[list[int]] = []
    shortest = 0
    for index in sorted(range(len(constraints)), key=lambda each: len(constraints[each].prefix)):
        length = len(constraints[index].prefix)
        if not groups or length > shortest + APART:
            groups.append([])
            shortest = length
        groups[-1].append(index)
    return groups

"""Draft and verify gives what greedy search gives, whatever was drafted; its work is counted."""

import math
import random
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from qkv.core.errors import UsageError
from qkv.data.batch import collate, padded
from qkv.models.heads.base import NO_CONTEXT, HeadContext
from qkv.models.heads.linear import LinearHead, output_matrix
from qkv.models.transformer.model import Transformer
from qkv.objectives.teacher_forcing import ObjectiveConfig
from qkv.search.base import Constraints, LengthLimits, SearchTask
from qkv.search.greedy import GreedyConfig
from qkv.search.hypothesis import Hypothesis
from qkv.search.models import ModelSteps, PrefixSteps
from qkv.search.speculative.blocks import ModelBlocks, PrefixBlocks
from qkv.search.speculative.drafters.guide import Guide
from qkv.search.speculative.drafters.jacobi import Jacobi
from qkv.search.speculative.loop import OVERHEAD, AdaptivePace, FullPace
from qkv.text import SPECIAL
from tests.support.drafting import (
    CountingBlocks,
    KnownDrafter,
    assert_equal_hypotheses,
    drafted,
    greedy,
    outputs_by_source,
)
from tests.support.small import random_ids, transformer
from tests.support.speaker import endless
from tests.support.speaker import speaker as speaking
from tests.support.tables import task_of

VOCAB = 14
MARGIN = 1e-4
"""Where the two best tokens are closer than this, rounding may choose; each such case is checked."""


def speaker(seed: int = 1, **changes: Any) -> Transformer:
    """A random model that says END every now and then."""
    return transformer(speaking(seed, sharpness=2, **changes).model)


def tasks(count: int, seed: int, rows: int, longest: int = 7) -> list[SearchTask]:
    chance = random.Random(seed)
    given = [[*random_ids(chance, chance.randint(1, longest), VOCAB), SPECIAL.eos] for _ in range(count)]
    return [task_of(given[at : at + rows], GreedyConfig(max_factor=1.0, max_extra=4)) for at in range(0, count, rows)]


def lengths_of(found: list[Hypothesis]) -> list[int]:
    """Tokens with END: what greedy search takes steps for."""
    return [len(each.token_scores) for each in found]


MODELS: list[dict[str, Any]] = [
    {"seed": 13},
    {"seed": 8, "positions": "rope", "residual": "post"},
    {"seed": 19, "positions": "learned", "decoder_layers": 2},
    {"seed": 13, "wiring": "layerwise", "encoder_layers": 2, "decoder_layers": 2},
    {"seed": 5, "updates": 60},
]


def taught(seed: int, updates: int) -> Transformer:
    """A model that has begun to learn to repeat its source."""
    model, chance = speaker(seed).train(), random.Random(seed)
    objective = ObjectiveConfig().build(VOCAB, SPECIAL, lambda: torch.ones(VOCAB))
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    for update in range(updates):
        ids = [random_ids(chance, chance.randint(1, 7), VOCAB) for _ in range(32)]
        report = objective.training_loss(model, collate(ids, ids, SPECIAL, SPECIAL, range(32)), update)
        optimizer.zero_grad()
        (report.sum / report.weight).backward()
        optimizer.step()
    return model.eval()


def each_alone(task: SearchTask) -> list[SearchTask]:
    lengths = task.src_lengths()
    return [
        replace(task, src=task.src[row, None, :length], src_keep=task.src_keep[row, None, :length], limits=[limits])
        for row, (length, limits) in enumerate(zip(lengths, task.limits, strict=True))
    ]


@pytest.mark.parametrize("alone", [False, True], ids=["in batches", "alone"])
@pytest.mark.parametrize("parts", MODELS, ids=str)
def test_two_thousand_sentences_of_each_model(parts: dict[str, Any], alone: bool) -> None:
    """10,000 in all, in batches and alone, with drafts that are right about two times of three, in single precision."""
    model = taught(**parts) if "updates" in parts else speaker(**parts)
    steps, blocks = ModelSteps(model), ModelBlocks(model)
    different, ends = 0, set()
    for number, task in enumerate(tasks(2000, parts["seed"], 250)):
        wanted = greedy(steps, task)
        drafter = KnownDrafter(outputs_by_source(task, wanted), 0.35, VOCAB, number)
        given = each_alone(task) if alone else [task]
        found = [one for part in given for one in drafted(blocks, drafter, part, FullPace(5))]
        ends |= {(len(each.tokens), each.ended) for each in wanted}
        for place, (ours, theirs) in enumerate(zip(found, wanted, strict=True)):
            if ours.tokens != theirs.tokens:
                different += 1
                assert margin(model, task, place, theirs.tokens, ours.tokens) < MARGIN
        same = [pair for pair in zip(found, wanted, strict=True) if pair[0].tokens == pair[1].tokens]
        assert_equal_hypotheses([ours for ours, _ in same], [theirs for _, theirs in same])
    assert different <= 2
    assert len(ends) > 10


def margin(model: Transformer, task: SearchTask, place: int, one: list[int], other: list[int]) -> float:
    """log p of the two best tokens where the outputs part, one minus the other."""
    at = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    keep = task.src_keep[place : place + 1]
    steps = PrefixSteps(model.double())
    state = steps.start(task.src[place : place + 1], keep)
    for token in [SPECIAL.bos, *one[:at]]:
        output, state = steps.step(torch.tensor([token]), state)
    model.float()
    best, second = output.log_probs[0].topk(2).values.tolist()
    return float(best - second)


@pytest.mark.parametrize("drafter", [Jacobi(), None], ids=["jacobi", "known"])
def test_sentences_alone(drafter: Jacobi | None) -> None:
    model = speaker(6)
    steps, blocks = ModelSteps(model), ModelBlocks(model)
    for number, task in enumerate(tasks(60, 6, 1)):
        wanted = greedy(steps, task)
        own = drafter or KnownDrafter(outputs_by_source(task, wanted), 0.3, VOCAB, number)
        assert_equal_hypotheses(drafted(blocks, own, task, AdaptivePace(6)), wanted)


def test_in_double_precision_nothing_differs() -> None:
    model = speaker(7).double()
    steps, blocks = PrefixSteps(model), ModelBlocks(model)
    for number, task in enumerate(tasks(300, 7, 100)):
        wanted = greedy(steps, task)
        for mistakes in (0.0, 0.2, 0.5, 1.0):
            drafter = KnownDrafter(outputs_by_source(task, wanted), mistakes, VOCAB, number)
            assert_equal_hypotheses(drafted(blocks, drafter, task, FullPace(3)), wanted)


@pytest.mark.parametrize("block", [1, 3, 25])
@pytest.mark.parametrize("rows", [1, 40])
def test_an_oracle_takes_the_fewest_passes_and_an_adversary_as_many_as_greedy_search(block: int, rows: int) -> None:
    model = speaker(8)
    steps, blocks = ModelSteps(model), ModelBlocks(model)
    for task in tasks(40 if rows > 1 else 8, 8, rows):
        wanted = greedy(steps, task)
        known = outputs_by_source(task, wanted)
        counted = CountingBlocks(blocks)
        found = drafted(counted, KnownDrafter(known, 0.0, VOCAB), task, FullPace(block))
        assert_equal_hypotheses(found, wanted)
        assert [each.passes for each in found] == [math.ceil(n / (block + 1)) for n in lengths_of(wanted)]
        assert len(counted.shapes) == max(each.passes or 0 for each in found)
        found = drafted(blocks, KnownDrafter(known, 1.0, VOCAB), task, FullPace(block))
        assert_equal_hypotheses(found, wanted)
        assert [each.passes for each in found] == lengths_of(wanted)


def test_nothing_is_drafted_beyond_the_longest_length() -> None:
    """So a model with as many positions is never asked for one more."""
    model = endless().model
    given = [[5, 6, SPECIAL.eos], [7, SPECIAL.eos]]
    wanted = greedy(ModelSteps(model), task_of(given, LengthLimits(9)))
    for longest in (1, 4, 6):
        task, counted = task_of(given, LengthLimits(longest)), CountingBlocks(ModelBlocks(model))
        found = drafted(counted, KnownDrafter(outputs_by_source(task, wanted), 0.0, VOCAB), task, FullPace(25))
        assert [each.tokens for each in found] == [each.tokens[:longest] for each in wanted]
        assert [each.passes for each in found] == [1, 1]
        assert counted.furthest == longest


RULES: list[tuple[dict[str, Any], Constraints]] = [
    ({"min_length": 6}, Constraints()),
    ({"max_length": 3}, Constraints()),
    ({"max_length": 0}, Constraints()),
    ({"no_repeat_ngram": 1}, Constraints()),
    ({"no_repeat_ngram": 2, "min_length": 8}, Constraints()),
    ({}, Constraints(prefix=[7, 9, 7, 8, 10])),
    ({"min_length": 5}, Constraints(forbidden=[[6], [11, 11], [12]])),
    # At last nothing may follow.
    ({"no_repeat_ngram": 1, "min_length": 40, "max_length": 60}, Constraints()),
]


@pytest.mark.parametrize(("settings", "constraints"), RULES, ids=str)
def test_every_rule_of_greedy_search_holds_inside_drafts(settings: dict[str, Any], constraints: Constraints) -> None:
    model = speaker(13)
    search = GreedyConfig(**settings)
    chance = random.Random(9)
    given = [[*random_ids(chance, length, VOCAB), SPECIAL.eos] for length in (1, 3, 5, 6, 2, 7)]
    task = task_of(given, search, constraints=[constraints] * len(given))
    wanted = greedy(ModelSteps(model), task, search)
    free = greedy(ModelSteps(model), task_of(given, GreedyConfig()))
    assert [each.tokens for each in wanted] != [each.tokens for each in free]
    for mistakes in (0.0, 0.3):
        drafter = KnownDrafter(outputs_by_source(task, wanted), mistakes, VOCAB)
        for blocks in (ModelBlocks(model), PrefixBlocks(model)):
            assert_equal_hypotheses(drafted(blocks, drafter, task, FullPace(4), search), wanted)


def test_what_greedy_search_refuses_is_refused() -> None:
    model, some = speaker(9), [[5, SPECIAL.eos]]
    required = task_of(some, LengthLimits(4), constraints=[Constraints(required=[[6]])])
    with pytest.raises(UsageError, match="greedy cannot take required words"):
        drafted(ModelBlocks(model), Jacobi(), required)
    with pytest.raises(UsageError, match="greedy search gives one output, not 2"):
        drafted(ModelBlocks(model), Jacobi(), task_of(some, LengthLimits(4), nbest=2))


class HeadWithTwins(LinearHead):
    """Ids 5 to 8 have twins from 9 on, and 5 has one more, with equal logits.

    They are copied: equal rows of a weight need not give equal products, as a matrix is multiplied in blocks.
    """

    def scores(self, states: Tensor, context: HeadContext = NO_CONTEXT) -> Tensor:
        scores = super().scores(states, context)
        scores[..., 9:13] = scores[..., 5:9]
        scores[..., 13] = scores[..., 5]
        return scores


def test_of_equal_tokens_the_lowest_id_wins() -> None:
    model = speaker(10)
    steps, blocks = ModelSteps(model), ModelBlocks(model)
    for each in (steps, blocks):
        each.head = HeadWithTwins(output_matrix(each.head))
    for task in tasks(50, 10, 25):
        wanted = greedy(steps, task)
        assert max(token for each in wanted for token in each.tokens) < 9
        twins = {source: [token + 4 for token in tokens] for source, tokens in outputs_by_source(task, wanted).items()}
        found = drafted(blocks, KnownDrafter(twins, 0.0, VOCAB), task)
        assert_equal_hypotheses(found, wanted)
        assert [each.passes for each in found] == lengths_of(wanted)


def test_attention_is_that_of_greedy_search() -> None:
    model = speaker(11)
    (task,) = tasks(12, 11, 12)
    wanted = greedy(ModelSteps(model, attention=True), task)
    drafter = KnownDrafter(outputs_by_source(task, wanted), 0.3, VOCAB)
    for ours, theirs in zip(drafted(ModelBlocks(model, attention=True), drafter, task), wanted, strict=True):
        assert ours.attention is not None
        assert theirs.attention is not None
        torch.testing.assert_close(torch.tensor(ours.attention), torch.tensor(theirs.attention), atol=1e-5, rtol=0)


def test_work_is_watched_and_can_be_stopped() -> None:
    calls = []

    def stop() -> None:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt

    model = speaker(12)
    task = task_of([[5, 6, 7, SPECIAL.eos]], GreedyConfig(min_length=9), after_step=stop)
    with pytest.raises(KeyboardInterrupt):
        drafted(ModelBlocks(model), Jacobi(), task, search=GreedyConfig(min_length=9))


def cost(shapes: list[tuple[int, int]]) -> float:
    """Of passes, in positions: see `draft_pace`."""
    return sum(OVERHEAD + rows * width for rows, width in shapes)


@pytest.mark.parametrize("rows", [1, 8, 64])
def test_an_adversary_costs_at_most_a_half_more(rows: int) -> None:
    """Counted in work, batch after batch with one pace, as a translator has it."""
    model = speaker(13)
    steps, blocks, pace = ModelSteps(model), CountingBlocks(ModelBlocks(model)), AdaptivePace(25)
    alone: list[tuple[int, int]] = []
    for task in tasks(64 if rows > 1 else 24, 13, rows):
        wanted = greedy(steps, task)
        alone += [(sum(length > at for length in lengths_of(wanted)), 1) for at in range(max(lengths_of(wanted)))]
        assert_equal_hypotheses(
            drafted(blocks, KnownDrafter(outputs_by_source(task, wanted), 1.0, VOCAB), task, pace), wanted
        )
    assert cost(blocks.shapes) <= 1.5 * cost(alone)
    assert max(width for _, width in blocks.shapes) > 1


def test_a_pace_asks_for_much_while_drafts_are_right_and_for_nothing_when_they_never_are() -> None:
    pace = AdaptivePace(10)
    assert pace.length(1) > 4
    for _ in range(20):
        pace.saw([(0, 4)])
    assert pace.length(1) == 0
    for _ in range(3000):
        pace.saw([(0, 0)])
    assert pace.length(1) > 0
    for _ in range(20):
        pace.saw([(10, 10)])
    assert pace.length(1) == 10
    assert AdaptivePace(10).length(1000) < 2


def test_a_pace_knows_that_what_begins_well_goes_on_well() -> None:
    """Half of the drafts are right from end to end, half not at all: long ones pay, which the mean would not tell."""
    pace = AdaptivePace(10)
    for _ in range(30):
        pace.saw([(10, 10), (0, 10)])
    assert pace.length(1) == 10
    for _ in range(30):
        pace.saw([(1, 10), (0, 10)])
    assert 0 < pace.length(1) < 3


def test_a_guide_is_followed_left_and_taken_up_again() -> None:
    guide = Guide([5, 6, 7, 8, 9, 10, 3])
    assert guide.after([]) == [5, 6, 7, 8, 9, 10, 3]
    assert guide.after([5, 6]) == [7, 8, 9, 10, 3]
    # A token was replaced, then one left out, then two put in.
    assert guide.after([5, 6, 20]) == [8, 9, 10, 3]
    assert guide.after([5, 6, 20, 9]) == [10, 3]
    assert guide.after([5, 6, 20, 9, 21, 22]) == [3]
    assert guide.after([5, 6, 20, 9, 21, 22, 9, 10]) == [3]


def test_of_several_places_the_guide_takes_the_nearest_that_agrees_longest() -> None:
    guide = Guide([5, 6, 7, 5, 8, 7, 5, 9, 3])
    assert guide.after([5, 6, 7, 7, 5]) == [8, 7, 5, 9, 3]
    assert guide.after([5, 6, 7, 7, 5, 8, 5]) == [9, 3]
    assert Guide([5, 6, 7, 5, 8, 6, 5, 9, 3]).after([9, 6, 5]) == [9, 3]
    assert Guide([5, 6, 7, 5, 8, 3]).after([6]) == [7, 5, 8, 3]


def test_an_empty_batch_and_sentences_without_room() -> None:
    model = speaker(14)
    assert drafted(ModelBlocks(model), Jacobi(), task_of([], LengthLimits(3))) == []
    src, keep = padded([[5, SPECIAL.eos], [6, SPECIAL.eos]], SPECIAL.pad)
    task = SearchTask(src, keep, SPECIAL, [LengthLimits(0), LengthLimits(2)])
    found = drafted(ModelBlocks(model), Jacobi(), task)
    assert_equal_hypotheses(found, greedy(ModelSteps(model), task))
    assert found[0].passes == 0

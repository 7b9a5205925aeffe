"""The cached decoder over several new positions equals whole prefixes and single steps, for every kind of part."""

from typing import Any

import pytest
import torch
from torch import Tensor

from qkv.search.models import ModelSteps
from qkv.search.protocol import BlockFunction, BlocksState
from qkv.search.speculative.blocks import ModelBlocks, PrefixBlocks
from tests.support.parts import CAUSAL_PARTS, sources
from tests.support.small import VOCAB, small_model

WIDTHS = [1, 5, 2, 31, 1, 8]
"""Of the blocks, one after the other; together more than the room that the cache starts with."""


def walk(blocks: BlockFunction, src: Tensor, keep: Tensor, kept: list[list[int]]) -> list[Tensor]:
    """Blocks of random tokens, of which each row keeps as many as `kept` says: the rows drift apart."""
    torch.manual_seed(1)
    _, state = blocks.start(src, keep)
    found = []
    for width, counts in zip(WIDTHS, kept, strict=True):
        tokens = torch.randint(5, VOCAB, (len(src), width))
        before: BlocksState = state
        output, state = blocks.extend(tokens, state)
        state = state.truncate([length + count for length, count in zip(before.lengths, counts, strict=True)])
        found.append(output.log_probs)
    return found


ALL = [[width] * 3 for width in WIDTHS]
SOME = [[1, 1, 1], [5, 1, 3], [1, 2, 1], [3, 20, 31], [1, 1, 1], [2, 8, 1]]


@pytest.mark.parametrize("parts", CAUSAL_PARTS, ids=str)
def test_wide_passes_equal_whole_prefixes(parts: dict[str, Any]) -> None:
    model = small_model(**parts).eval()
    src, keep = sources([7, 3, 0])
    cached, full = (walk(blocks, src, keep, SOME) for blocks in (ModelBlocks(model), PrefixBlocks(model)))
    for ours, theirs in zip(cached, full, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)


@pytest.mark.parametrize("kept", [ALL, SOME], ids=["all", "some"])
def test_in_double_precision_they_are_equal_to_ten_digits(kept: list[list[int]]) -> None:
    model = small_model().double().eval()
    src, keep = sources([7, 3, 0])
    cached, full = (walk(blocks, src, keep, kept) for blocks in (ModelBlocks(model), PrefixBlocks(model)))
    assert cached[0].dtype == torch.float64
    for ours, theirs in zip(cached, full, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-10, rtol=0)


def test_a_block_equals_single_steps_with_their_attention() -> None:
    model = small_model().eval()
    src, keep = sources([7, 3, 0])
    tokens = torch.randint(5, VOCAB, (3, 9))
    steps, blocks = ModelSteps(model, attention=True), ModelBlocks(model, attention=True)
    state = steps.start(src, keep)
    _, wide = blocks.start(src, keep)
    output, _ = blocks.extend(tokens, wide)
    assert output.attention is not None
    for at in range(9):
        single, state = steps.step(tokens[:, at], state)
        torch.testing.assert_close(output.log_probs[:, at], single.log_probs, atol=1e-5, rtol=0)
        torch.testing.assert_close(output.attention[:, at], single.attention, atol=1e-5, rtol=0)


def test_rows_that_leave_take_nothing_with_them() -> None:
    model = small_model().eval()
    src, keep = sources([7, 3, 5])
    tokens = torch.randint(5, VOCAB, (3, 6))
    blocks = ModelBlocks(model)
    _, state = blocks.start(src, keep)
    _, state = blocks.extend(tokens[:, :3], state)
    state = state.truncate([3, 1, 2])
    whole, _ = blocks.extend(tokens[:, 3:], state)
    _, state = blocks.start(src, keep)
    _, state = blocks.extend(tokens[:, :3], state)
    some, _ = blocks.extend(tokens[[2, 0], 3:], state.truncate([3, 1, 2]).select([2, 0]))
    torch.testing.assert_close(some.log_probs, whole.log_probs[[2, 0]], atol=1e-6, rtol=0)


def test_a_short_row_may_be_filled_up_beyond_the_last_learned_position() -> None:
    model = small_model(positions={"kind": "learned", "max_length": 8}).eval()
    src, keep = sources([3, 2])
    blocks = ModelBlocks(model)
    tokens = torch.randint(5, VOCAB, (2, 5))
    _, state = blocks.start(src, keep)
    _, state = blocks.extend(tokens, state)
    output, _ = blocks.extend(tokens, state.truncate([1, 5]))
    alone = PrefixBlocks(model)
    _, single = alone.start(src[:1], keep[:1])
    _, single = alone.extend(tokens[:1, :1], single)
    wanted, _ = alone.extend(tokens[:1], single)
    torch.testing.assert_close(output.log_probs[:1], wanted.log_probs, atol=1e-5, rtol=0)


def test_a_state_that_was_truncated_does_not_go_on() -> None:
    """Its cache may be overwritten by what goes on from the shorter one."""
    model = small_model().eval()
    src, keep = sources([3, 2])
    blocks = ModelBlocks(model)
    tokens = torch.randint(5, VOCAB, (2, 5))
    _, state = blocks.start(src, keep)
    _, longer = blocks.extend(tokens, state)
    longer.truncate([2, 3])
    with pytest.raises(RuntimeError, match="was truncated"):
        blocks.extend(tokens, longer)
    with pytest.raises(RuntimeError, match="was truncated"):
        longer.select([0])


def test_two_blocks_from_one_state_do_not_disturb_each_other() -> None:
    model = small_model().eval()
    src, keep = sources([3, 2])
    blocks, twin = ModelBlocks(model), PrefixBlocks(model)
    first, one, other, last = (torch.randint(5, VOCAB, (2, 3)) for _ in range(4))
    _, state = blocks.extend(first, blocks.start(src, keep)[1])
    _, same = twin.extend(first, twin.start(src, keep)[1])
    left, right = (blocks.extend(each, state)[1] for each in (one, other))
    for middle, now in ((one, left), (other, right)):
        found, _ = blocks.extend(last, now)
        wanted, _ = twin.extend(last, twin.extend(middle, same)[1])
        torch.testing.assert_close(found.log_probs, wanted.log_probs, atol=1e-5, rtol=0)

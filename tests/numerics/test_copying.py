"""What an open canvas begins with, and what glancing shows."""

import pytest
import torch

from qkv.functional.parallel.glancing import choose_some, glance_counts, repetition, uniform_copy


@pytest.mark.parametrize(
    ("source", "target", "indices"),
    [
        (5, 7, [0, 1, 1, 2, 3, 3, 4]),
        (4, 4, [0, 1, 2, 3]),
        (1, 3, [0, 0, 0]),
        (6, 1, [0]),
        (1, 1, [0]),
        (6, 2, [0, 5]),
    ],
)
def test_uniform_copy(source: int, target: int, indices: list[int]) -> None:
    assert uniform_copy(torch.tensor([source]), torch.tensor([target]), target)[0].tolist() == indices


def test_uniform_copy_is_monotone_from_the_first_to_the_last_and_ignores_the_batch() -> None:
    for source in range(1, 9):
        targets = torch.arange(2, 12)
        index = uniform_copy(torch.full_like(targets, source), targets, 11)
        for row, target in zip(index, targets.tolist(), strict=True):
            own = row[:target].tolist()
            assert own == sorted(own)
            assert (own[0], own[-1]) == (0, source - 1)
            assert row.max() < source


def test_repetition() -> None:
    lengths = torch.tensor([3, 2])
    assert repetition(lengths, 2 * lengths, 6).tolist() == [[0, 0, 1, 1, 2, 2], [0, 0, 1, 1, 1, 1]]
    assert repetition(lengths, torch.tensor([5, 3]), 5).tolist() == [[0, 0, 1, 1, 2], [0, 0, 1, 1, 1]]


def test_how_many_are_shown() -> None:
    wrong = torch.arange(8)[None, :] < torch.tensor([0, 1, 3, 8])[:, None]
    assert glance_counts(wrong, 0.5).tolist() == [0, 1, 2, 4]
    assert glance_counts(wrong, 0.0).tolist() == [0, 0, 0, 0]
    assert glance_counts(wrong, 0.3).tolist() == [0, 0, 1, 2]


def test_the_chosen_are_eligible_exactly_so_many_and_all_equally_likely() -> None:
    generator = torch.Generator().manual_seed(0)
    eligible = torch.tensor([[True, True, False, True, True]]).expand(4000, 5)
    counts = torch.tensor([0, 1, 2, 7]).repeat(1000)
    chosen = choose_some(eligible, counts, generator)
    assert torch.equal(chosen.sum(dim=1), counts.clamp(max=4))
    assert not chosen[:, 2].any()
    shares = chosen[counts == 2].float().mean(dim=0)
    torch.testing.assert_close(shares[[0, 1, 3, 4]], torch.full((4,), 0.5), atol=0.06, rtol=0)

"""Input noise: rates, what stays, seeds, and how far a swap moves a token."""

from collections.abc import Callable

import pytest
import torch
from torch import Generator, Tensor

from qkv.functional.noise import drop_tokens, mask_tokens, replace_tokens, swap_tokens

UNK, MASK, LOW, VOCAB = 1, 4, 5, 1000
NOISES: dict[str, Callable[[Tensor, Tensor, float, Generator], Tensor]] = {
    "mask": lambda ids, eligible, rate, random: mask_tokens(ids, eligible, rate, MASK, random),
    "drop": lambda ids, eligible, rate, random: drop_tokens(ids, eligible, rate, UNK, random),
    "replace": lambda ids, eligible, rate, random: replace_tokens(ids, eligible, rate, LOW, VOCAB, random),
}
every_noise = pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES.keys())


def rows(count: int = 200, length: int = 50) -> tuple[Tensor, Tensor]:
    """Sentences of BOS, tokens, and padding of a length that differs by row."""
    ids = torch.randint(LOW, VOCAB, (count, length), generator=Generator().manual_seed(1))
    eligible = torch.arange(length)[None] < torch.randint(
        2, length + 1, (count, 1), generator=Generator().manual_seed(2)
    )
    eligible[:, 0] = False
    return ids, eligible


@every_noise
@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_the_rate_is_kept_and_nothing_else_changes(noise: Callable[..., Tensor], rate: float) -> None:
    ids, eligible = rows()
    noisy = noise(ids, eligible, rate, Generator().manual_seed(3))
    changed = noisy != ids
    assert not changed[~eligible].any()
    count = int(eligible.sum())
    assert abs(changed.sum().item() - rate * count) < 3 * (rate * (1 - rate) * count) ** 0.5 + 0.002 * count


@every_noise
def test_rate_zero_changes_nothing_and_rate_one_everything(noise: Callable[..., Tensor]) -> None:
    ids, eligible = rows()
    assert torch.equal(noise(ids, eligible, 0.0, Generator().manual_seed(3)), ids)
    changed = noise(ids, eligible, 1.0, Generator().manual_seed(3)) != ids
    assert changed[eligible].float().mean() > 0.99


@every_noise
def test_the_seed_decides(noise: Callable[..., Tensor]) -> None:
    ids, eligible = rows()
    first, again, other = (noise(ids, eligible, 0.3, Generator().manual_seed(seed)) for seed in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_what_stands_in_for_a_token() -> None:
    ids, eligible = rows()
    random = Generator().manual_seed(3)
    assert (mask_tokens(ids, eligible, 1.0, MASK, random)[eligible] == MASK).all()
    assert (drop_tokens(ids, eligible, 1.0, UNK, random)[eligible] == UNK).all()
    drawn = replace_tokens(ids, eligible, 1.0, LOW, VOCAB, random)[eligible]
    assert drawn.min() >= LOW
    assert drawn.max() < VOCAB
    assert abs(drawn.double().mean().item() - (LOW + VOCAB - 1) / 2) < 20


@pytest.mark.parametrize("distance", [0, 1, 3])
def test_a_swap_moves_no_token_further_than_the_distance(distance: int) -> None:
    _, eligible = rows()
    ids = torch.arange(eligible.shape[1]).expand_as(eligible).contiguous()
    swapped = swap_tokens(ids, eligible, distance, Generator().manual_seed(3))
    assert torch.equal(swapped.sort(dim=1).values, ids)
    assert torch.equal(swapped[~eligible], ids[~eligible])
    assert (swapped - ids).abs().max() == distance


def test_a_swap_jumps_over_what_must_stay() -> None:
    ids = torch.tensor([[10, 11, 12, 13, 14, 15]])
    eligible = torch.tensor([[False, True, False, True, True, False]])
    seen = {tuple(swap_tokens(ids, eligible, 2, Generator().manual_seed(s))[0].tolist()) for s in range(60)}
    assert len(seen) > 3
    assert all(row[0] == 10 and row[2] == 12 and row[5] == 15 for row in seen)

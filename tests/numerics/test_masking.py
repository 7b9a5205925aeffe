"""Masked spans as in T5, exactly."""

from itertools import pairwise

import pytest
import torch

from qkv.functional.masking.spans import corrupt_spans, random_segments, span_counts

SENTINELS = list(range(1000, 1100))


@pytest.mark.parametrize(("length", "noise", "spans"), [(512, 77, 26), (2, 1, 1), (3, 1, 1), (10, 2, 1), (100, 15, 5)])
def test_how_much_is_masked(length: int, noise: int, spans: int) -> None:
    assert span_counts(length) == (noise, spans)
    tokens = list(range(length))
    source, target = corrupt_spans(tokens, SENTINELS, torch.Generator().manual_seed(length))
    assert len(source) == length - noise + spans
    assert len(target) == noise + spans + 1


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("density", [0.15, 0.5, 0.9])
def test_putting_the_spans_back_rebuilds_the_text(seed: int, density: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(5, 900, (2 + seed * 3,), generator=generator).tolist()
    source, target = corrupt_spans(tokens, SENTINELS, generator, density)
    used = [token for token in source if token >= 1000]
    assert used == SENTINELS[: len(used)]
    assert target[0] == SENTINELS[0]
    assert target[-1] == SENTINELS[len(used)]
    hidden: dict[int, list[int]] = {}
    for token in target:
        if token >= 1000:
            hidden[token] = []
        else:
            hidden[next(reversed(hidden))].append(token)
    assert [part for token in source for part in hidden.get(token, [token])] == tokens
    assert all(hidden[sentinel] for sentinel in used)
    assert not any(one >= 1000 and other >= 1000 for one, other in pairwise(source))


def test_every_division_is_as_likely() -> None:
    generator = torch.Generator().manual_seed(0)
    drawn = [tuple(random_segments(4, 2, generator)) for _ in range(3000)]
    assert {division: round(drawn.count(division) / 3000, 1) for division in set(drawn)} == {
        (1, 3): 0.3,
        (2, 2): 0.3,
        (3, 1): 0.3,
    }

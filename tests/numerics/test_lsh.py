"""LSH attention: the hash, the sorted chunks, and the kernel against one dense softmax over what the rounds found."""

from itertools import pairwise, product

import pytest
import torch
from torch import Tensor

from qkv.functional.attention import scaled_dot_product
from qkv.functional.lsh import (
    SELF_LOGIT,
    combine_hashes,
    found_pairs,
    hash_buckets,
    lsh_attention_by_rounds,
    shared_keys,
)
from qkv.functional.lsh import lsh_attention as dense_lsh_attention
from qkv.kernels import lsh
from qkv.kernels.lsh import assign_buckets, lsh_attention, sort_by_bucket
from tests.support.memory import saved_bytes

# (length, chunk): one position, fewer than a chunk, one chunk, several, several and some more.
SIZES = [(1, 4), (3, 4), (4, 4), (12, 4), (14, 4), (9, 2), (5, 1)]


def draw(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, dtype=torch.float64, generator=generator)


def inputs(length: int) -> tuple[Tensor, Tensor, Tensor]:
    q, v = draw(2, 3, length, 4), draw(2, 3, length, 5, seed=1)
    return q.requires_grad_(), shared_keys(q).detach().requires_grad_(), v.requires_grad_()


def some_buckets(length: int, count: int, rounds: int = 3, heads: int = 3) -> Tensor:
    return torch.randint(count, (rounds, 2, heads, length), generator=torch.Generator().manual_seed(length))


def padding(length: int) -> Tensor:
    """The second sentence is about half as long."""
    return torch.arange(length) < torch.tensor([[length], [(length + 1) // 2]])


def test_a_hash_sees_only_the_direction_and_the_opposite_is_half_of_the_buckets_away() -> None:
    x, rotation = draw(7, 50, 6), draw(7, 6, 4, seed=1)
    buckets = hash_buckets(x, rotation)
    assert set(buckets.flatten().tolist()) == set(range(8))
    assert torch.equal(hash_buckets(3.5 * x, rotation), buckets)
    assert torch.equal(hash_buckets(-x, rotation), (buckets + 4) % 8)


def test_small_angles_share_a_bucket_more_often_than_large_ones() -> None:
    x, rotation = draw(4000, 1, 8), draw(4000, 8, 4, seed=1)
    buckets, noise = hash_buckets(x, rotation), draw(4000, 1, 8, seed=2)
    moved = [hash_buckets(x + far * noise, rotation) for far in (0.0, 0.2, 0.5, 1.0, 10.0)]
    shares = [float((buckets == others).double().mean()) for others in moved]
    assert shares[0] == 1
    assert all(closer > further + 0.05 for closer, further in pairwise(shares))


def test_each_row_is_hashed_into_its_own_number_of_buckets() -> None:
    x, rotations = draw(4, 2, 30, 6), draw(2, 3, 2, 6, 5, seed=1)
    sizes = torch.tensor([[1, 1], [2, 1], [10, 1], [4, 6]])
    found = assign_buckets(x, rotations, sizes)
    assert not found[:, 0].any()
    for row, (first, second) in enumerate(sizes.tolist()[1:], start=1):
        for number in range(3):
            hashes = [
                hash_buckets(x[row], rotations[stage, number, :, :, : size // 2])
                for stage, size in enumerate((first, second))
                if size > 1
            ]
            expected = combine_hashes(hashes[0], hashes[1], second) if second > 1 else hashes[0]
            assert torch.equal(found[number, row], expected)


@pytest.mark.parametrize(("length", "chunk"), SIZES)
def test_sorting_is_stable_and_is_undone(length: int, chunk: int) -> None:
    buckets, keep = some_buckets(length, 3), padding(length)
    order = sort_by_bucket(buckets, chunk, True, keep)
    x = torch.arange(6 * order.length).view(6, order.length)
    for number in range(3):
        arranged = x.flatten()[order.query_places(number)]
        assert torch.equal(order.back(arranged, number), x.flatten())
        for row, places in enumerate(arranged.view(6, order.length)):
            positions = (places - row * order.length).tolist()
            real = [p for p in positions if p < length and keep[row // 3, p]]
            assert positions[: len(real)] == real
            assert real == sorted(real, key=lambda p: (int(buckets[number, row // 3, row % 3, p]), p))


@pytest.mark.parametrize(("length", "chunk"), SIZES)
@pytest.mark.parametrize(("same_bucket", "is_causal", "padded"), list(product([True, False], repeat=3)))
def test_the_kernel_equals_one_softmax_over_what_was_found(
    length: int, chunk: int, same_bucket: bool, is_causal: bool, padded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lsh, "BLOCK", 3 * 2 * chunk**2)  # three chunks at a time, so that there are several blocks
    q, k, v = inputs(length)
    buckets, keep = some_buckets(length, 3), padding(length) if padded else None
    out = lsh_attention(q, k, v, buckets, chunk, same_bucket, is_causal, keep)
    expected = dense_lsh_attention(q, k, v, found_pairs(buckets, chunk, same_bucket, keep), is_causal)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-10)
    upstream = torch.randn_like(out)
    for found, wanted in zip(
        torch.autograd.grad(out, (q, k, v), upstream),
        torch.autograd.grad(expected, (q, k, v), upstream),
        strict=True,
    ):
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-10)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("same_bucket", [False, True])
def test_the_rounds_combined_are_one_softmax_over_their_union(same_bucket: bool, is_causal: bool) -> None:
    q, k, v = inputs(14)
    found = found_pairs(some_buckets(14, 3), 4, same_bucket)
    times = found.sum(dim=0)
    assert times.max() == 3
    assert bool((times == 2).any())
    union, combined = dense_lsh_attention(q, k, v, found, is_causal), lsh_attention_by_rounds(q, k, v, found, is_causal)
    torch.testing.assert_close(combined, union, rtol=0, atol=3e-15)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("chunk", [12, 40])
def test_one_bucket_and_one_chunk_are_full_attention_without_oneself(chunk: int, is_causal: bool) -> None:
    q, k, v = inputs(12)
    bias = SELF_LOGIT * torch.eye(12, dtype=torch.float64)[None, None]
    mask = torch.ones(12, 12).tril().bool()[None, None] if is_causal else None
    expected, weights = scaled_dot_product(q, k, v, mask, bias)
    found = lsh_attention(q, k, v, torch.zeros(2, 2, 3, 12, dtype=torch.int64), chunk, is_causal=is_causal)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
    assert not weights.diagonal(dim1=-2, dim2=-1)[..., 1:].any()
    if is_causal:  # the first one has nobody but itself
        torch.testing.assert_close(found[:, :, 0], v[:, :, 0])


def test_the_first_chunk_does_not_look_back_to_the_last() -> None:
    found = found_pairs(torch.zeros(1, 1, 1, 8, dtype=torch.int64), 2)
    allowed = [[j // 2 in (i // 2, i // 2 - 1) for j in range(8)] for i in range(8)]
    assert found.squeeze().tolist() == allowed


@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_gradcheck(rate: float) -> None:
    q, v = draw(1, 1, 5, 2).requires_grad_(), draw(1, 1, 5, 2, seed=1).requires_grad_()

    def run(q: Tensor, v: Tensor) -> Tensor:
        torch.manual_seed(0)
        return lsh_attention(q, shared_keys(q), v, some_buckets(5, 2, heads=1)[:, :1], 2, dropout=rate)

    assert torch.autograd.gradcheck(run, (q, v))


def test_the_mean_over_dropout_is_the_plain_result() -> None:
    q, k, v = (x.detach()[:1].expand(4000, -1, -1, -1) for x in inputs(9))
    buckets = some_buckets(9, 3)[:, :1].expand(-1, 4000, -1, -1)
    found = lsh_attention(q, k, v, buckets, 2, dropout=0.3)
    assert not torch.allclose(found[0], found[1])
    plain = lsh_attention(q[:1], k[:1], v[:1], buckets[:, :1], 2)
    torch.testing.assert_close(found.mean(dim=0, keepdim=True), plain, rtol=0, atol=0.08)


def test_the_error_to_full_attention_falls_with_rounds() -> None:
    torch.manual_seed(0)
    q, v = 3 * torch.randn(4, 2, 128, 16), torch.randn(4, 2, 128, 16)
    k = shared_keys(q)
    bias = SELF_LOGIT * torch.eye(128)[None, None]
    full, _ = scaled_dot_product(q, k, v, None, bias)
    sizes = torch.tensor([[16, 1]] * 4)
    errors = []
    for rounds in (1, 2, 4, 8, 32):
        buckets = assign_buckets(q, torch.randn(2, rounds, 2, 16, 8), sizes)
        errors.append(float((lsh_attention(q, k, v, buckets, 16) - full).norm() / full.norm()))
    assert all(fewer > 1.2 * more for fewer, more in pairwise(errors)), errors
    assert errors[-1] < 0.35


def test_memory_does_not_hold_a_square() -> None:
    """What autograd keeps grows in step with the length."""

    def saved(length: int) -> int:
        q = torch.randn(1, 1, length, 8, requires_grad=True)
        with saved_bytes() as sizes:
            lsh_attention(q, q, q, torch.randint(8, (2, 1, 1, length)), 16)
        return sum(sizes)

    kept = [saved(length) for length in (256, 512, 1024)]
    assert kept[1] == 2 * kept[0]
    assert kept[2] == 2 * kept[1]


def test_runs_under_bfloat16_autocast() -> None:
    q, k, v = (x.detach().float().requires_grad_() for x in inputs(14))
    buckets = some_buckets(14, 3)
    with torch.autocast("cpu", torch.bfloat16):
        low = lsh_attention(q, k, v, buckets, 4)
    assert low.dtype == torch.bfloat16
    torch.testing.assert_close(low.float(), lsh_attention(q, k, v, buckets, 4), rtol=0, atol=0.05)
    low.float().sum().backward()
    assert all(x.grad is not None and bool(torch.isfinite(x.grad).all()) for x in (q, k, v))

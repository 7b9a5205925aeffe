"""LSH attention (Reformer; Kitaev et al. 2020), in its dense and readable form.

Queries and keys share one projection, so a query finds its nearest keys by hashing: vectors at a small angle fall into
the same bucket. Sorted by bucket and cut into chunks, each chunk attends to itself and to the chunk before it.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from qkv.core.devices import widest_float
from qkv.core.shapes import AttentionWeights, ContextHeads, Heads, KeyHeads, Mask, ValueHeads
from qkv.functional.attention import masked_softmax, scaled_dot_scores
from qkv.functional.masks import build_mask, causal

Buckets = Int[Tensor, "rounds B H Q"]
"""The bucket of each position, for each round of hashing and each head."""
FoundPairs = Bool[Tensor, "rounds B H Q K"]
SELF_LOGIT = -5e4
"""The logit of a position with itself: q_i · k_i would nearly always be the largest."""


def shared_keys(q: Heads) -> Heads:
    """k_j = q_j / ‖q_j‖: the keys are the queries, of length one."""
    return F.normalize(q, dim=-1)


def hash_buckets(x: Float[Tensor, "*rows n E"], rotation: Float[Tensor, "*#rows E half"]) -> Int[Tensor, "*rows n"]:
    """h(x) = argmax([x R; -x R]) for a random R: the nearest of b = 2 · half random directions."""
    turned = x @ rotation
    return torch.cat([turned, -turned], dim=-1).argmax(dim=-1)


def bucket_counts(lengths: Int[Tensor, " B"], chunk: int) -> Int[Tensor, " B"]:
    """b = 2 ⌈n / c⌉, so that a chunk holds about two buckets; one bucket for a sequence that fits into one chunk."""
    counts = 2 * ((lengths + chunk - 1) // chunk)
    return torch.where(lengths <= chunk, 1, counts)


def hash_sizes(counts: Int[Tensor, " B"], largest: int = 64) -> Int[Tensor, "B 2"]:
    """b as b_1 · b_2 of two hashes. Above `largest` both are about √b, because the cost of a hash grows with its b."""
    first = 2 * torch.ceil(counts.to(widest_float(counts.device)).sqrt() / 2).long()
    second = 2 * torch.ceil(counts / first / 2).long()
    few = counts <= largest
    return torch.stack([counts.where(few, first), torch.where(few, 1, second)], dim=1)


def combine_hashes(
    first: Int[Tensor, "*rows n"], second: Int[Tensor, "*rows n"], second_size: int
) -> Int[Tensor, "*rows n"]:
    """h = h_1 · b_2 + h_2: b_1 · b_2 buckets at the cost of b_1 + b_2."""
    return first * second_size + second


def found_pairs(
    buckets: Buckets, chunk: int, same_bucket: bool = True, keep: Bool[Tensor, "B Q"] | None = None
) -> FoundPairs:
    """The pairs that each round finds: key j is in the chunk of query i or in the previous one.

    Padding is sorted last, so that it does not shift real positions to other chunks, and finds nothing. With
    `same_bucket`, positions of a chunk that come from different buckets do not attend to each other.
    """
    _, batch, _, length = buckets.shape
    real = torch.ones(batch, length, dtype=torch.bool, device=buckets.device) if keep is None else keep
    last = buckets.max() + 1
    order = torch.argsort(buckets.where(real[:, None], last), dim=-1, stable=True)
    chunks = torch.argsort(order, dim=-1) // chunk
    behind = chunks[..., :, None] - chunks[..., None, :]
    found = (behind == 0) | (behind == 1)
    if same_bucket:
        found = found & (buckets[..., :, None] == buckets[..., None, :])
    return found & (real[:, None, :, None] & real[:, None, None, :])


def lsh_scores(q: Heads, k: KeyHeads) -> AttentionWeights:
    """q_i · k_j / √d_k, and a large negative constant for i = j: self-attention is a last resort."""
    itself = torch.eye(q.shape[2], dtype=torch.bool, device=q.device)
    return scaled_dot_scores(q, k).masked_fill(itself, SELF_LOGIT)


def lsh_attention(q: Heads, k: KeyHeads, v: ValueHeads, found: FoundPairs, is_causal: bool = False) -> ContextHeads:
    """One softmax over the union of all rounds: A = softmax(scores) over {j : some round found (i, j)}."""
    mask = found.any(dim=0)
    if is_causal:
        mask = mask & _not_after(q)
    return masked_softmax(lsh_scores(q, k), mask).to(v.dtype) @ v


def lsh_attention_by_rounds(
    q: Heads, k: KeyHeads, v: ValueHeads, found: FoundPairs, is_causal: bool = False
) -> ContextHeads:
    """The same as the paper computes it: o = Σ_r exp(z_r - logsumexp_r z_r) o_r, round r by round.

    o_r is the softmax of round r and z_r the logarithm of its denominator. A pair that N_ij rounds found gets
    -log N_ij in each, so that it counts once. Every query must find at least itself.
    """
    mask = found & _not_after(q) if is_causal else found
    times = found.sum(dim=0).clamp(min=1).to(q.dtype)
    logits = (lsh_scores(q, k) - times.log()).expand_as(mask).masked_fill(~mask, -torch.inf)
    z = torch.logsumexp(logits, dim=-1, keepdim=True)
    contexts = torch.exp(logits - z) @ v
    return (torch.softmax(z, dim=0) * contexts).sum(dim=0)


def _not_after(q: Heads) -> Mask:
    pos = torch.arange(q.shape[2], device=q.device)
    mask = build_mask(causal, pos, pos)
    assert mask is not None
    return mask

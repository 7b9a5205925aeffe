"""Position schemes: sinusoidal, rotary, Shaw, T5 and ALiBi."""

import math
from functools import lru_cache

import torch
from jaxtyping import Float, Int
from torch import Tensor

from qkv.core.devices import widest_float
from qkv.core.shapes import AttentionWeights, Heads


def sinusoidal(
    pos: Int[Tensor, "*shape"], d_model: int, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "*shape {d_model}"]:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)),  PE(pos, 2i+1) = cos(pos / 10000^(2i/d_model))  (section 3.5).

    Computed in float64 whatever the result's type: in float32 the angle of a distant position is off
    by a few thousandths. An odd last channel is 0.
    """
    pairs = d_model // 2
    exponent = torch.arange(pairs, dtype=widest_float(pos.device), device=pos.device) * 2 / d_model
    angle = pos.to(widest_float(pos.device))[..., None] * 10000.0**-exponent
    waves = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)
    return _fill_up(waves, d_model).to(dtype)


def sinusoidal_half_split(
    pos: Int[Tensor, "*shape"], d_model: int, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "*shape {d_model}"]:
    """All sines, then all cosines, with ω_i = 10000^(-i/(d_model/2 - 1)): tensor2tensor's and fairseq's form.

    The frequencies differ from the paper's, so this is not a permutation of `sinusoidal`; weights
    trained with one form need that form.
    """
    pairs = d_model // 2
    exponent = torch.arange(pairs, dtype=widest_float(pos.device), device=pos.device) / max(pairs - 1, 1)
    angle = pos.to(widest_float(pos.device))[..., None] * 10000.0**-exponent
    waves = torch.cat([angle.sin(), angle.cos()], dim=-1)
    return _fill_up(waves, d_model).to(dtype)


def _fill_up(waves: Tensor, d_model: int) -> Tensor:
    return torch.nn.functional.pad(waves, (0, d_model - waves.shape[-1]))


Waves = Float[Tensor, "*#rows half"]


def rotary_angles(pos: Int[Tensor, "*shape"], width: int, base: float = 10000.0) -> Float[Tensor, "*shape half"]:
    """p θ_i with θ_i = base^(-2i / d_k), one angle for each pair of channels; in float64, as for `sinusoidal`."""
    exponent = torch.arange(width // 2, dtype=widest_float(pos.device), device=pos.device) * 2 / width
    return pos.to(widest_float(pos.device))[..., None] * base**-exponent


def rotate_pairs(x: Float[Tensor, "*rows E"], cos: Waves, sin: Waves) -> Float[Tensor, "*rows E"]:
    """(x_2i, x_2i+1) -> (x_2i cos - x_2i+1 sin, x_2i sin + x_2i+1 cos): the paper's pairs of neighbours."""
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)


def rotate_halves(x: Float[Tensor, "*rows E"], cos: Waves, sin: Waves) -> Float[Tensor, "*rows E"]:
    """The same angles for the pairs (x_i, x_i+d/2): `rotate_pairs` with permuted channels, and faster."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)


QueryPositionIds = Int[Tensor, " Q"] | Int[Tensor, "#B Q"]
KeyPositionIds = Int[Tensor, " K"] | Int[Tensor, "#B K"]
Distances = Int[Tensor, "#B Q K"]
DistanceBias = Float[Tensor, "rows H Q K"]


def distances(q_pos: QueryPositionIds, k_pos: KeyPositionIds) -> Distances:
    """r_ij = j - i, positive where the key follows the query; one row for the whole batch, or one per sentence."""
    found = k_pos[..., None, :] - q_pos[..., :, None]
    return found[None] if found.dim() == 2 else found


def clipped(distance: Distances, longest: int) -> Distances:
    """c = clip(r, -m, m) + m with m = `longest`, the row of a table of 2 m + 1 distances."""
    return distance.clamp(-longest, longest) + longest


def shaw_scores(q: Heads, table: Float[Tensor, "C E"], row: Distances) -> AttentionWeights:
    """q_i · a_c / √d_k with c = row(i, j): what Shaw et al. (2018, equation 4) add to the scaled scores.

    Together with them it is q_i · (k_j + a_c) / √d_k. The vectors of every pair are written out, [B, Q, K, E].
    """
    vectors = table[row].expand(len(q), -1, -1, -1)
    return torch.einsum("bhqe,bqke->bhqk", q, vectors) / math.sqrt(q.shape[-1])


def shaw_context(weights: AttentionWeights, table: Float[Tensor, "C E"], row: Distances) -> Float[Tensor, "B H Q E"]:
    """Σ_j A_ij a_c with c = row(i, j): what Shaw et al. (2018, equation 3) add to the output Σ_j A_ij v_j."""
    vectors = table[row].expand(len(weights), -1, -1, -1)
    return torch.einsum("bhqk,bqke->bhqe", weights, vectors)


@lru_cache
def bucket_sizes(buckets: int, longest: int) -> tuple[int, ...]:
    """The bucket of every distance a = 0 ... longest on one side (Raffel et al. 2020); beyond, it is that of `longest`.

    With x = buckets / 2: a if a < x, else min(buckets - 1, x + ⌊ln(a / x) / ln(longest / x) (buckets - x)⌋).
    Counted in whole numbers, because ln(16 / 8) / ln(128 / 8) is not exactly 1/4 in floating point.
    """
    exact = buckets // 2
    steps = buckets - exact

    def bucket(a: int) -> int:
        if a < exact:
            return a
        # The largest s with (a / x)^steps >= (longest / x)^s.
        reached = (s for s in range(steps, -1, -1) if a**steps * exact**s >= longest**s * exact**steps)
        return min(buckets - 1, exact + next(reached))

    return tuple(map(bucket, range(longest + 1)))


def t5_buckets(distance: Distances, causal: bool, buckets: int = 32, longest: int = 128) -> Distances:
    """The bucket of each distance: small distances have their own, large ones share logarithmically.

    Bidirectional: the second half is for keys after the query. Causal: a key after the query counts as distance 0.
    """
    if causal:
        sizes, side, offset = bucket_sizes(buckets, longest), (-distance).clamp(min=0), torch.zeros_like(distance)
    else:
        sizes, side, offset = bucket_sizes(buckets // 2, longest), distance.abs(), (distance > 0) * (buckets // 2)
    table = torch.tensor(sizes, device=distance.device)
    return table[side.clamp(max=longest)] + offset


def t5_bias(table: Float[Tensor, "N H"], bucket: Distances) -> DistanceBias:
    """b_h(i, j) = table[bucket(j - i), h], added to the logits."""
    return table[bucket].permute(0, 3, 1, 2)


def alibi_slopes(num_heads: int) -> list[float]:
    """m_h = 2^(-8 h / H), h = 1 ... H (Press et al. 2022), for H a power of two.

    For another H: the slopes of the next lower power of two P, then the 1st, 3rd, ... slope of 2 P.
    """
    lower = 1 << (num_heads.bit_length() - 1)
    slopes = [2 ** (-8 * h / lower) for h in range(1, lower + 1)]
    return slopes + [2 ** (-8 * h / (2 * lower)) for h in range(1, 2 * (num_heads - lower), 2)]


def alibi_bias(distance: Distances, slopes: Float[Tensor, " H"]) -> DistanceBias:
    """-m_h |i - j|, added to the scaled logits: far keys count less, in each head to its own degree."""
    return -slopes[:, None, None] * distance.abs()[:, None]


def shifted_positions(rows: int, length: int, most: int) -> Int[Tensor, "{rows} {length}"]:
    """p + o with one o ~ U{0 ... most} for each sentence (Kiyono et al. 2021)."""
    return torch.arange(length) + torch.randint(most + 1, (rows, 1))


def randomised_positions(rows: int, length: int, max_positions: int) -> Int[Tensor, "{rows} {length}"]:
    """For each row, `length` distinct positions of 0 ... max_positions - 1 in rising order (Ruoss et al. 2023)."""
    if length > max_positions:
        raise ValueError(
            f"{length} tokens do not fit {max_positions} positions; raise model.position_offsets.max_positions"
        )
    return torch.rand(rows, max_positions).topk(length, sorted=False).indices.sort().values

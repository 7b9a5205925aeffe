"""How well a key answers a query, beside the dot products of `attention.py`."""

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from qkv.functional.attention import dot_scores
from qkv.shapes import AttentionWeights, Heads, KeyHeads


def additive_scores(q: Heads, k: KeyHeads, v: Float[Tensor, "H E"]) -> AttentionWeights:
    """v · tanh(q_i + k_j), one v a head (Bahdanau et al. 2015).

    Their W q and U k are the projections to heads. Needs [Q, K, E] numbers a head; see `kernels/additive.py`.
    """
    hidden = (q[:, :, :, None] + k[:, :, None]).tanh()
    return (hidden * v[:, None, None]).sum(dim=-1)


def cosine_scores(q: Heads, k: KeyHeads, scale: Float[Tensor, " H"]) -> AttentionWeights:
    """scale · cos(q_i, k_j): the lengths of queries and keys do not count, each head has a sharpness of its own."""
    return dot_scores(F.normalize(q, dim=-1), F.normalize(k, dim=-1)) * scale[:, None, None]

"""Attention with a bias that depends on the distance, by PyTorch's `flex_attention`, for accelerators.

The bias is a function of head and distance, computed where it is added: no [H, Q, K] tensor of it exists, forward or
backward, and blocks that the mask excludes are skipped.
"""

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from qkv.core.shapes import ContextHeads, Heads, KeyHeads, Mask, ValueHeads
from qkv.kernels.window.flex import Run, compiled_flex

OfDistance = Callable[[Tensor, Tensor], Tensor]
"""A bias as a function of the head and of the position of a key minus that of its query, one of each."""


def flex_bias_attention(
    q: Heads,
    k: KeyHeads,
    v: ValueHeads,
    bias: OfDistance,
    q_pos: Tensor,
    k_pos: Tensor,
    mask: Mask | None = None,
    run: Run | None = None,
) -> ContextHeads:
    """softmax(Q Kᵀ / √d_k + bias) V over the allowed keys; positions are [Q] and [K], or [B, Q] and [B, K].

    `run` is `flex_attention`, compiled if None. A query without any key gets 0.
    """
    queries, keys = (pos.expand(len(q), -1) for pos in (q_pos, k_pos))
    # Lambdas, as shape checks (jaxtyping) wrap every `def`, and the compiler cannot look into what they wrap.
    biased = lambda score, row, head, query, key: score + bias(head, keys[row, key] - queries[row, query])  # noqa: E731
    blocks = None if mask is None else _blocks(mask, q)
    output = (run or compiled_flex())(q, k, v, score_mod=biased, block_mask=blocks)
    return output if mask is None else torch.where(mask.any(-1, keepdim=True), output, 0.0)


_latest: tuple[Any, Any] | None = None
"""The newest block mask and the mask that it was made of: the layers of a pass share it."""


def _blocks(mask: Tensor, q: Tensor) -> Any:
    from torch.nn.attention.flex_attention import create_block_mask

    global _latest
    if _latest is not None and _latest[0]() is mask:
        return _latest[1]
    # The kernel asks with the number of a row even where one mask is for all of them.
    dense = mask.expand(len(q), 1, q.shape[2], mask.shape[3])
    seen = lambda row, head, query, key: dense[row, 0, query, key]  # noqa: E731
    rows = None if len(mask) == 1 else len(q)
    made = create_block_mask(seen, rows, None, dense.shape[2], dense.shape[3], device=mask.device)
    _latest = weakref.ref(mask), made
    return made

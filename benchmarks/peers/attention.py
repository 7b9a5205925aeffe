"""One layer of self-attention [B, n, D] -> [B, n, D] of each kind: ours, and that of other packages at the same sizes.

All project to heads, attend and project back; a peer that leaves a projection out is given it here. All look as far:
`window` keys on each side for windows, chunks of `chunk` positions and as many rounds for LSH, one global token.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

import torch
from torch import Tensor, nn

from qkv.layers.attention import AttentionConfig, FullConfig, LongformerConfig, LshConfig, TruncatedConfig
from qkv.layers.attention.context import AttentionContext

Layer = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Sizes:
    """What all have in common."""

    width: int
    heads: int
    window: int
    chunk: int
    rounds: int


def ours(config: AttentionConfig, sizes: Sizes, dropout: float = 0.0) -> Layer:
    built = config.build(sizes.width, sizes.heads, dropout, None, 0)

    def layer(x: Tensor) -> Tensor:
        pos = torch.arange(x.shape[1])
        attended: Tensor = built(x, AttentionContext(pos, pos))
        return attended

    return layer


def huggingface_longformer(sizes: Sizes) -> Layer:
    """transformers leaves W_o to the module around it."""
    from transformers import LongformerConfig as TheirConfig
    from transformers.models.longformer.modeling_longformer import LongformerSelfAttention

    config = TheirConfig(
        hidden_size=sizes.width,
        num_attention_heads=sizes.heads,
        attention_window=[2 * sizes.window],
        attention_probs_dropout_prob=0.0,
    )
    attention = LongformerSelfAttention(config, 0)  # type: ignore[no-untyped-call]  # transformers leaves it without types
    output = nn.Linear(sizes.width, sizes.width)

    def layer(x: Tensor) -> Tensor:
        mask = torch.zeros(x.shape[:2])
        mask[:, 0] = 10_000.0  # the global token
        attended: Tensor = attention(
            x,
            attention_mask=mask,
            is_index_masked=mask < 0,
            is_index_global_attn=mask > 0,
            is_global_attn=True,
        )[0]
        projected: Tensor = output(attended)
        return projected

    return layer


def local_attention(sizes: Sizes) -> Layer:
    """The package attends only, so it has our projections around it."""
    from local_attention import LocalAttention

    attention = LocalAttention(
        sizes.window, causal=False, look_backward=1, look_forward=1, exact_windowsize=True, use_rotary_pos_emb=False
    )
    project, output = nn.Linear(sizes.width, 3 * sizes.width), nn.Linear(sizes.width, sizes.width)

    def layer(x: Tensor) -> Tensor:
        q, k, v = project(x).unflatten(-1, (3, sizes.heads, -1)).permute(2, 0, 3, 1, 4)
        attended: Tensor = output(attention(q, k, v).transpose(1, 2).flatten(2))
        return attended

    return layer


def reformer_lsh(sizes: Sizes) -> Layer:
    from reformer_pytorch import LSHSelfAttention

    attention = LSHSelfAttention(
        sizes.width, heads=sizes.heads, bucket_size=sizes.chunk, n_hashes=sizes.rounds, causal=False
    )
    return lambda x: attention(x)


KINDS: dict[str, Callable[[Sizes], Layer]] = {
    "full": lambda sizes: ours(FullConfig(), sizes),
    "full, dropout": lambda sizes: ours(FullConfig(), sizes, dropout=0.1),  # so that the weights must be written down
    "truncated": lambda sizes: ours(TruncatedConfig(left=sizes.window), sizes),
    "longformer": lambda sizes: ours(LongformerConfig(window=2 * sizes.window, global_positions=(0,)), sizes),
    "lsh": lambda sizes: ours(LshConfig(rounds=sizes.rounds, chunk=sizes.chunk), sizes),
    "local-attention": local_attention,
    "transformers Longformer": huggingface_longformer,
    "reformer-pytorch LSH": reformer_lsh,
}
PACKAGES = {
    "local-attention": "local_attention",
    "transformers Longformer": "transformers",
    "reformer-pytorch LSH": "reformer_pytorch",
}
"""What a peer needs, beside our own dependencies."""
RIVALS = {"local-attention": "truncated", "transformers Longformer": "longformer", "reformer-pytorch LSH": "lsh"}
"""Which of ours a peer is beside."""


def missing(kind: str) -> str | None:
    """The package that this kind needs and that is not installed."""
    package = PACKAGES.get(kind)
    return package if package and find_spec(package) is None else None

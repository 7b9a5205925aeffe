"""What each head attends to, summed over a corpus: sharpness, distance, and the shares of some kinds of keys."""

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from qkv.functional.heads.measures import row_entropy
from qkv.models.transformer.head_ids import HeadId
from qkv.text import Tokenizer
from qkv.text.special import NAMES, SPECIAL
from qkv.visual.heads.corpus import known
from qkv.visual.heads.weights import SideWeights

TARGETS = {
    "previous": "the previous token",
    "same": "the same position",
    "next": "the next token",
    "first": "the first token",
    "end": "END",
    "punctuation": "punctuation",
    "rare": "the rarest word",
}
"""Kinds of keys; one key may be of several kinds."""
MOST = 0.5
"""A head is named after a kind of key that gets at least this share of its attention."""
EVEN = 0.9
"""A head attends evenly if its entropy is at least this share of the largest possible one."""


@dataclass(frozen=True)
class HeadProfile:
    """What one head attends to; means over the real queries of a corpus."""

    head: HeadId
    entropy: float
    """In nats."""
    evenness: float
    """The entropy divided by its maximum, the logarithm of the number of keys."""
    confidence: float
    """The largest weight of a query, END not counted as a key (Voita et al. 2019)."""
    distance: float
    """|key - query| in tokens, weighted by attention; in cross-attention from the diagonal of the pair."""
    shares: Mapping[str, float | None]
    """The attention that each kind of key in `TARGETS` gets, over the queries that may attend to such a key; None: no
    query may."""

    def role(self, even: Mapping[str, float | None]) -> str:
        """What it attends to most, in words; `even` are the shares that even attention would give."""
        known = {kind: share for kind, share in self.shares.items() if share is not None}
        gains = {kind: share - (even[kind] or 0.0) for kind, share in known.items() if share >= MOST}
        if gains and max(gains.values()) > 0:
            return TARGETS[max(gains, key=lambda kind: gains[kind])]
        return "everything, evenly" if self.evenness >= EVEN else "mixed"


@dataclass(frozen=True)
class KeyKinds:
    """Which ids of a vocabulary are punctuation, and how often each of them occurs in the corpus."""

    punctuation: Tensor
    """[V], boolean."""
    frequency: Tensor
    """[V]"""
    tokenizer: Tokenizer

    @classmethod
    def of(cls, tokenizer: Tokenizer, frequency: Tensor) -> "KeyKinds":
        pieces = tokenizer.tokens(range(len(tokenizer)))
        signs = [number >= len(NAMES) and is_punctuation(piece) for number, piece in enumerate(pieces)]
        return cls(torch.tensor(signs), frequency, tokenizer)

    def rarest(self, keys: Tensor, real: Tensor) -> Tensor:
        """[B, K], True at the tokens of each sentence that are rarest in the corpus; never at a special token."""
        ids = known(keys, self.tokenizer)
        words = real & (ids >= len(NAMES)) & ~self.punctuation[ids]
        count = self.frequency[ids].masked_fill(~words, torch.iinfo(torch.long).max)
        return words & (count == count.amin(dim=1, keepdim=True))


def is_punctuation(piece: str) -> bool:
    """Whether a piece of text, apart from marks of spaces, is punctuation only."""
    signs = piece.replace("▁", "").strip()
    return bool(signs) and all(unicodedata.category(sign).startswith("P") for sign in signs)


@dataclass
class ProfileSums:
    """Sums over the real queries seen so far of one side with N heads."""

    heads: int
    queries: int = 0
    evenest: float = 0.0
    """The entropy of even attention."""
    sums: dict[str, Tensor] = field(default_factory=dict)
    """[N] each."""
    even: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    """Queries that may attend to such a key."""

    def add(self, seen: SideWeights, kinds: KeyKinds) -> None:
        """Add the weights of a batch."""
        weights, real = seen.weights, seen.queries
        self.queries += int(real.sum())
        self.evenest += float(seen.visible.sum(-1)[real].double().log().sum())
        self._sum("entropy", row_entropy(weights), real)
        is_end = seen.keys == SPECIAL.eos
        self._sum("confidence", weights.masked_fill(is_end[:, None, None], 0).amax(-1), real)
        self._sum("distance", torch.einsum("bnqk,bqk->bnq", weights, key_distances(seen).to(weights)), real)
        for kind, is_kind in key_masks(seen, kinds).items():
            mask = is_kind & seen.visible
            possible = mask.any(-1)
            self._sum(kind, torch.einsum("bnqk,bqk->bnq", weights, mask.to(weights)), possible)
            shares = mask.sum(-1)[possible].double() / seen.visible.sum(-1)[possible]
            self.even[kind] = self.even.get(kind, 0.0) + float(shares.sum())
            self.counts[kind] = self.counts.get(kind, 0) + int(possible.sum())

    def _sum(self, name: str, values: Tensor, where: Tensor) -> None:
        """`values` [B, N, Q] at the queries `where` [B, Q]."""
        total = values.double().masked_fill(~where[:, None], 0).sum(dim=(0, 2))
        self.sums[name] = self.sums[name] + total if name in self.sums else total

    def even_shares(self) -> dict[str, float | None]:
        """What even attention would give to each kind of key."""
        return {kind: self.even[kind] / count if (count := self.counts[kind]) else None for kind in TARGETS}

    def profiles(self, heads: list[HeadId]) -> list[HeadProfile]:
        def mean(name: str, place: int, count: int) -> float:
            return float(self.sums[name][place]) / count

        return [
            HeadProfile(
                head,
                entropy=mean("entropy", place, self.queries),
                evenness=float(self.sums["entropy"][place]) / self.evenest if self.evenest else 1.0,
                confidence=mean("confidence", place, self.queries),
                distance=mean("distance", place, self.queries),
                shares={kind: mean(kind, place, count) if (count := self.counts[kind]) else None for kind in TARGETS},
            )
            for place, head in enumerate(heads)
        ]


def key_distances(seen: SideWeights) -> Tensor:
    """[B, Q, K]: |k - q|; in cross-attention |k - q (S - 1) / (T - 1)|, the distance from the diagonal."""
    queries, keys = (torch.arange(size, dtype=torch.float64) for size in seen.visible.shape[1:])
    if seen.side != "cross":
        return (keys - queries[:, None]).abs().expand(seen.visible.shape)
    src, tgt = seen.visible.any(1).sum(-1), seen.queries.sum(-1)
    slope = (src - 1) / (tgt - 1).clamp_min(1)
    return (keys - slope[:, None, None].double() * queries[:, None]).abs()


def key_masks(seen: SideWeights, kinds: KeyKinds) -> dict[str, Tensor]:
    """[B|1, Q|1, K], True = the key is of this kind for the query; the names are those of `TARGETS`."""
    queries, keys = (torch.arange(size) for size in seen.visible.shape[1:])
    offset = (keys - queries[:, None])[None]
    ids = known(seen.keys, kinds.tokenizer)
    return {
        "previous": offset == -1,
        "same": offset == 0,
        "next": offset == 1,
        "first": (keys == 0)[None, None],
        "end": (seen.keys == SPECIAL.eos)[:, None],
        "punctuation": kinds.punctuation[ids][:, None],
        "rare": kinds.rarest(seen.keys, seen.visible.any(1))[:, None],
    }

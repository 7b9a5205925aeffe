"""Steps of the Transformer whose tensors have the same shapes and addresses from one step to the next.

The KV cache has all its positions from the start, those not written yet are masked, and the rows of finished sentences
stay where they were. So a step can be recorded once and replayed: on a CUDA device it is a CUDA graph, which starts
hundreds of small kernels by one call. Elsewhere the same step is computed anew each time, with the same result.

Sources, rows and positions are rounded up, so that few graphs serve batches of all sizes.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from qkv.functional.masks import causal
from qkv.inference.cache import KVCache, SourceKeys
from qkv.inference.layers import additive
from qkv.inference.transformer import TransformerInference
from qkv.layers.attention.base import Block
from qkv.layers.attention.context import AttentionContext

SOURCE = 32
"""The length of the sources is a multiple of it."""
POSITIONS = 64
"""The first capacity of a cache; when it is full, the next one has twice as many."""
MOST_SLOTS = 8
"""Shapes whose tensors and graphs are kept, the newest."""
WARM_UP = 3
"""Runs before a graph is recorded, in which libraries allocate what they need."""

Said = tuple[Tensor, Tensor | None]
"""Log-probabilities [R, V] and, if wanted, cross-attention [R, S]."""


@dataclass(eq=False)
class Slot:
    """The tensors of a step, which are overwritten by the next one."""

    cache: KVCache
    sources: SourceKeys
    tokens: Tensor
    """[R, 1]"""
    at: Tensor
    """[R, 1], where the tokens stand in the cache."""
    keys: Tensor
    """[capacity], 0, 1, 2, ..."""
    run: Callable[[], Said] | None = None
    branch: int = 0
    """Counts what makes earlier states unusable."""
    filled: int = 0
    """Positions that the newest state has."""

    @property
    def capacity(self) -> int:
        return self.cache.tensor.shape[3]


@dataclass(frozen=True)
class StaticState:
    """What some rows have decoded so far. It is usable until the rows are reordered, or continued in another way."""

    slot: Slot
    rows: int
    """In use; those behind them are filled up."""
    sentences: int
    length: int = 0
    branch: int = 0

    @torch.inference_mode()
    def reorder(self, rows: Tensor, sentences: Tensor) -> "StaticState":
        slot = self._intact()
        everything = F.pad(rows, (0, slot.cache.tensor.shape[1] - len(rows)))
        slot.cache.tensor.copy_(slot.cache.tensor.index_select(1, everything))
        if slot.cache.carried is not None:
            slot.cache.carried.copy_(slot.cache.carried.index_select(1, everything))
        padded = F.pad(sentences, (0, slot.sources.key_value.shape[1] - len(sentences)))
        _fill(slot.sources, slot.sources.select(padded))
        slot.branch += 1
        slot.filled = self.length
        return StaticState(slot, len(rows), len(sentences), self.length, slot.branch)

    def _intact(self) -> Slot:
        if self.branch != self.slot.branch:
            raise RuntimeError("a decoder of fixed shapes has one state at a time; continue from the newest one")
        return self.slot

    def continued(self) -> Slot:
        """The slot; a state that was continued before is continued in another way, and what came of it is lost."""
        slot = self._intact()
        if self.length < slot.filled:
            slot.branch += 1
        slot.filled = self.length + 1
        return slot


class StaticInference:
    """`TransformerInference` by steps of fixed shapes."""

    def __init__(self, inner: TransformerInference, never: Sequence[int]) -> None:
        self.inner, self.never = inner, never
        self._slots: OrderedDict[tuple[object, ...], Slot] = OrderedDict()

    def start(self, src: Tensor, src_keep: Tensor, beams: int = 1) -> StaticState:
        """Read the sources [B, S]."""
        count, length = src.shape
        more = max(1 << (count - 1).bit_length(), 1) - count
        # What fills up the rows are copies: a source without any token would have no softmax.
        src, src_keep = (torch.cat([part, part[:1].expand(more, -1)]) if more else part for part in (src, src_keep))
        src, src_keep = (F.pad(part, (0, -length % SOURCE)) for part in (src, src_keep))
        begun = self.inner.start(src, src_keep, beams)
        slot = self._slot(begun.cache, begun.sources, POSITIONS)
        slot.branch += 1
        slot.filled = 0
        return StaticState(slot, count * beams, count, 0, slot.branch)

    def step(self, tokens: Tensor, state: StaticState) -> tuple[Said, StaticState]:
        """The next token of each row [R] to the log-probabilities of what follows."""
        if state.length == state.slot.capacity:
            state = self._grown(state)
        slot = state.continued()
        slot.tokens[: len(tokens), 0] = tokens
        slot.at.fill_(state.length)
        if slot.run is None:
            slot.run = _recorded(lambda: self._step(slot), tokens.device)
        log_probs, attention = slot.run()
        # A recorded step overwrites its results, which a search may keep.
        said = log_probs[: state.rows].clone(), None if attention is None else attention[: state.rows].clone()
        return said, replace(state, length=state.length + 1, branch=slot.branch)

    def _step(self, slot: Slot) -> Said:
        inner, limit = self.inner, self.inner.tgt_limit
        mask = additive(slot.keys <= slot.at[..., None], slot.cache.tensor)[:, None]
        q_pos = slot.at if limit is None else slot.at.clamp_max(limit - 1)
        block = Block(AttentionContext(q_pos, slot.keys, causal), 1, mask, slot.at)
        output = inner.passed(slot.tokens, block, slot.cache, slot.capacity, slot.sources)
        log_probs = inner.head.log_probs(output.states, output.context, never=self.never)[:, 0]
        attention = output.context.attention
        return log_probs, None if attention is None else attention[:, 0]

    def _grown(self, state: StaticState) -> StaticState:
        """The same state with room for twice as many positions."""
        old = state._intact()
        slot = self._slot(old.cache, old.sources, 2 * old.capacity)
        slot.branch += 1
        slot.filled = state.length
        return replace(state, slot=slot, branch=slot.branch)

    def _slot(self, cache: KVCache, sources: SourceKeys, capacity: int) -> Slot:
        """Tensors of these shapes, made or used again, with this content."""
        missing = capacity - cache.tensor.shape[3]
        parts = (sources.padding, sources.src, sources.pointed_at, cache.carried)
        optional = tuple(None if part is None else part.shape for part in parts)
        key = (capacity, cache.tensor.shape[:3], sources.key_value.shape, optional)
        slot = self._slots.get(key)
        if slot is None:
            slot = self._slots[key] = _made(cache.with_positions(missing), sources, capacity)
        else:
            slot.cache.tensor.copy_(F.pad(cache.tensor, (0, 0, 0, missing)))
            if slot.cache.carried is not None and cache.carried is not None:
                slot.cache.carried.copy_(F.pad(cache.carried, (0, 0, 0, missing)))
            _fill(slot.sources, sources)
        self._slots.move_to_end(key)
        if len(self._slots) > MOST_SLOTS:
            self._slots.popitem(last=False)
        return slot


def _made(cache: KVCache, sources: SourceKeys, capacity: int) -> Slot:
    rows, device = cache.tensor.shape[1], cache.tensor.device
    tokens, at = (torch.zeros(rows, 1, dtype=torch.long, device=device) for _ in range(2))
    return Slot(cache, sources.copy(), tokens, at, torch.arange(capacity, device=device))


def _fill(own: SourceKeys, other: SourceKeys) -> None:
    """Overwrite the tensors of `own`."""
    if own is other:
        return
    own.key_value.copy_(other.key_value)
    for mine, given in ((own.padding, other.padding), (own.src, other.src), (own.pointed_at, other.pointed_at)):
        if mine is not None and given is not None:
            mine.copy_(given)


def _recorded(run: Callable[[], Said], device: torch.device) -> Callable[[], Said]:
    """A CUDA graph of `run`, whose results are overwritten at each call; `run` itself on other devices."""
    if device.type != "cuda":
        return run
    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        for _ in range(WARM_UP):
            run()
    torch.cuda.current_stream(device).wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        said = run()

    def replay() -> Said:
        graph.replay()
        return said

    return replay

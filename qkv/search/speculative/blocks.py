"""The wide passes of a model: cached, and from whole prefixes (the definition)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from qkv.models.base import Model
from qkv.models.transformer.model import Transformer
from qkv.search.protocol import BlockOutput, BlocksState
from qkv.text.special import NEVER_OUTPUT, SPECIAL


class ModelBlocks:
    """Cached passes of a model over several tokens; it copies the weights."""

    def __init__(self, model: Model, attention: bool = False) -> None:
        self.model = model.inference().require_blocks(attention)
        self.head = self.model.head
        self.attention = attention

    @torch.inference_mode()
    def start(self, src: Tensor, src_keep: Tensor) -> tuple[Tensor, BlocksState]:
        memory = self.model.encode(src, src_keep)
        return memory, self.model.begin(memory, src, src_keep)

    @torch.inference_mode()
    def extend(self, tokens: Tensor, state: BlocksState) -> tuple[BlockOutput, BlocksState]:
        (states, context), after = self.model.extend(tokens, state)
        log_probs = self.head.log_probs(states, context, never=NEVER_OUTPUT)
        return BlockOutput(log_probs, states, context.attention if self.attention else None), after


@dataclass(frozen=True)
class PrefixesState:
    """All tokens of each row, beside its source."""

    memory: Tensor
    src_keep: Tensor
    prefixes: tuple[tuple[int, ...], ...]

    @property
    def lengths(self) -> tuple[int, ...]:
        return tuple(map(len, self.prefixes))

    def truncate(self, lengths: Sequence[int]) -> "PrefixesState":
        kept = tuple(prefix[:length] for prefix, length in zip(self.prefixes, lengths, strict=True))
        return replace(self, prefixes=kept)

    def select(self, rows: Sequence[int]) -> "PrefixesState":
        index = torch.tensor(rows, device=self.memory.device)
        return PrefixesState(self.memory[index], self.src_keep[index], tuple(self.prefixes[row] for row in rows))


class PrefixBlocks:
    """The definition: each pass decodes whole prefixes. The cached blocks are tested against it."""

    def __init__(self, model: Transformer) -> None:
        self.model = model

    @torch.no_grad()
    def start(self, src: Tensor, src_keep: Tensor) -> tuple[Tensor, PrefixesState]:
        memory = self.model.encode(src, src_keep)
        return memory, PrefixesState(memory, src_keep, ((),) * len(src))

    @torch.no_grad()
    def extend(self, tokens: Tensor, state: PrefixesState) -> tuple[BlockOutput, PrefixesState]:
        prefixes = tuple((*old, *new) for old, new in zip(state.prefixes, tokens.tolist(), strict=True))
        longest = max(map(len, prefixes))
        rows = [[*prefix, *[SPECIAL.pad] * (longest - len(prefix))] for prefix in prefixes]
        decoded = self.model.decode(torch.tensor(rows, device=tokens.device), state.memory, state.src_keep)
        places = torch.tensor(state.lengths, device=tokens.device)[:, None] + torch.arange(tokens.shape[1])
        new = decoded.take_along_dim(places[..., None].to(decoded.device), dim=1)
        return BlockOutput(self.model.head.log_probs(new, never=NEVER_OUTPUT), new, None), replace(
            state, prefixes=prefixes
        )

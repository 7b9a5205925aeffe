"""What a search knows of a model: start with the source, then one token at a time.

A search sees only `StepFunction`, so one model, an ensemble of several, or a table in a test are the same to it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self

import torch
from torch import Tensor

from qkv.core.errors import UsageError
from qkv.inference.cache import DecoderState
from qkv.inference.transformer import TransformerInference
from qkv.models.parallel.base import ParallelModel
from qkv.models.transformer.model import Transformer
from qkv.text.special import NEVER_OUTPUT

PIECE = 256
"""Positions that a pass over given tokens reads at once: more take memory and are not faster."""


class StepOutput(NamedTuple):
    """What a step says about the next token of each row."""

    log_probs: Tensor
    """[R, V], normalised over what may be output; the others are -inf."""
    attention: Tensor | None
    """[R, S], the mean of the last layer's cross-attention heads; only from a step function that was asked for it."""


class ForcedOutput(NamedTuple):
    """What steps said about tokens that were given."""

    log_probs: Tensor
    """[B, W], of each token."""
    attention: Tensor | None
    """[B, W, S], see `StepOutput`."""


class StepState(Protocol):
    """All that was decoded so far, as a value: a step gives a new one and leaves the old one as it was."""

    def reorder(self, rows: Tensor, sentences: Tensor) -> Self:
        """New row r goes on from old row rows[r]; new sentence i is old sentence sentences[i].

        The rows of a new sentence all come from the old sentence that it was.
        """


class StepFunction(Protocol):
    """Row = sentence x beams + beam."""

    def start(self, src: Tensor, src_keep: Tensor, beams: int = 1) -> StepState:
        """Read the sources [B, S]; every sentence gets `beams` equal rows."""

    def step(self, tokens: Tensor, state: Any) -> tuple[StepOutput, StepState]:
        """Append the last token of each row [R], the start symbol first, and say what may follow.

        `state` is what `start` or `step` gave; each step function knows its own kind.
        """

    def force(self, tokens: Tensor, state: Any, beams: int) -> tuple[ForcedOutput, StepState]:
        """W steps of which it is known what they say: `tokens` [B, 1 + W] begin with the start symbol.

        `state` is what `start` gave; afterwards all tokens but the last one have been read by every row.
        """


def force_by_steps(steps: StepFunction, tokens: Tensor, state: Any, beams: int) -> tuple[ForcedOutput, Any]:
    """The definition of `force`."""
    scores, weights = [], []
    for read, said in zip(tokens[:, :-1].unbind(1), tokens[:, 1:].unbind(1), strict=True):
        output, state = steps.step(read.repeat_interleave(beams), state)
        scores.append(output.log_probs[::beams].gather(1, said[:, None]))
        weights.append(None if output.attention is None else output.attention[::beams])
    known = [weight for weight in weights if weight is not None]
    attention = torch.stack(known, dim=1) if len(known) == len(weights) else None
    return ForcedOutput(torch.cat(scores, dim=1), attention), state


@dataclass(frozen=True)
class PrefixState:
    """The whole prefix of each row, beside its source."""

    memory: Tensor
    src_keep: Tensor
    prefix: Tensor

    def reorder(self, rows: Tensor, sentences: Tensor) -> "PrefixState":
        return PrefixState(self.memory[rows], self.src_keep[rows], self.prefix[rows])


class PrefixSteps:
    """The definition: each step decodes the whole prefix again. The cached steps are tested against it."""

    def __init__(self, model: Transformer) -> None:
        self.model = model

    @torch.no_grad()
    def start(self, src: Tensor, src_keep: Tensor, beams: int = 1) -> PrefixState:
        memory = self.model.encode(src, src_keep).repeat_interleave(beams, 0)
        return PrefixState(memory, src_keep.repeat_interleave(beams, 0), src.new_empty((len(src) * beams, 0)))

    @torch.no_grad()
    def step(self, tokens: Tensor, state: PrefixState) -> tuple[StepOutput, PrefixState]:
        state = PrefixState(state.memory, state.src_keep, torch.cat([state.prefix, tokens[:, None]], dim=1))
        decoded = self.model.decode(state.prefix, state.memory, state.src_keep)
        return StepOutput(self.model.head.log_probs(decoded[:, -1], NEVER_OUTPUT), None), state

    def force(self, tokens: Tensor, state: PrefixState, beams: int) -> tuple[ForcedOutput, PrefixState]:
        return force_by_steps(self, tokens, state, beams)


class ModelSteps:
    """The cached steps of a model as it is now: make a new one after its weights have changed."""

    def __init__(self, model: Transformer, attention: bool = False) -> None:
        if isinstance(model, ParallelModel):
            raise UsageError(f"a model of the kind {model.kind} has no next token: it fills a canvas")
        self.model = TransformerInference(model)
        self.head = model.head
        self.attention = attention

    @torch.inference_mode()
    def start(self, src: Tensor, src_keep: Tensor, beams: int = 1) -> DecoderState:
        return self.model.start(self.model.encode(src, src_keep), src_keep, beams)

    @torch.inference_mode()
    def step(self, tokens: Tensor, state: DecoderState) -> tuple[StepOutput, DecoderState]:
        weights: list[Tensor] = []
        decoded, after = self.model.extend(tokens[:, None], state, weights.append if self.attention else None)
        log_probs = self.head.log_probs(decoded[:, 0], NEVER_OUTPUT)
        return StepOutput(log_probs, weights[-1][:, 0] if weights else None), after

    @torch.inference_mode()
    def force(self, tokens: Tensor, state: DecoderState, beams: int) -> tuple[ForcedOutput, DecoderState]:
        sentences = torch.arange(len(tokens), device=tokens.device)
        # The rows of a sentence read the same: it is read once, and its keys and values are copied.
        state = state.reorder(sentences * beams, sentences)
        scores, weights = [], list[Tensor]()
        for first in range(0, tokens.shape[1] - 1, PIECE):
            read, said = tokens[:, first:-1][:, :PIECE], tokens[:, first + 1 :][:, :PIECE]
            decoded, state = self.model.extend(read, state, weights.append if self.attention else None)
            scores.append(self.head.log_probs(decoded, NEVER_OUTPUT).gather(2, said[..., None])[..., 0])
        attention = torch.cat(weights, dim=1) if weights else None
        after = state.reorder(sentences.repeat_interleave(beams), sentences)
        return ForcedOutput(torch.cat(scores, dim=1), attention), after


@dataclass(frozen=True)
class EnsembleState:
    """The state of each member."""

    states: Sequence[StepState]

    def reorder(self, rows: Tensor, sentences: Tensor) -> "EnsembleState":
        return EnsembleState([state.reorder(rows, sentences) for state in self.states])


class Ensemble:
    """p = mean of the members' p; they share one vocabulary."""

    def __init__(self, members: Sequence[StepFunction]) -> None:
        self.members = members

    def start(self, src: Tensor, src_keep: Tensor, beams: int = 1) -> EnsembleState:
        return EnsembleState([member.start(src, src_keep, beams) for member in self.members])

    def step(self, tokens: Tensor, state: EnsembleState) -> tuple[StepOutput, EnsembleState]:
        pairs = [member.step(tokens, inner) for member, inner in zip(self.members, state.states, strict=True)]
        stacked = torch.stack([output.log_probs for output, _ in pairs])
        log_probs = stacked.logsumexp(dim=0) - torch.tensor(len(pairs)).log()
        weights = [output.attention for output, _ in pairs]
        known = [weight for weight in weights if weight is not None]
        attention = torch.stack(known).mean(dim=0) if len(known) == len(pairs) else None
        return StepOutput(log_probs, attention), EnsembleState([inner for _, inner in pairs])

    def force(self, tokens: Tensor, state: EnsembleState, beams: int) -> tuple[ForcedOutput, EnsembleState]:
        pairs = [member.force(tokens, inner, beams) for member, inner in zip(self.members, state.states, strict=True)]
        log_probs = torch.stack([output.log_probs for output, _ in pairs]).logsumexp(dim=0)
        known = [output.attention for output, _ in pairs if output.attention is not None]
        attention = torch.stack(known).mean(dim=0) if len(known) == len(pairs) else None
        mean = log_probs - torch.tensor(len(pairs)).log()
        return ForcedOutput(mean, attention), EnsembleState([inner for _, inner in pairs])

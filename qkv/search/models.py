"""A model, or an ensemble with one vocabulary, as searches ask for it: by steps, by blocks, or in one parallel pass."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from qkv.core.errors import UsageError
from qkv.core.state import StepState
from qkv.data.batch import Batch
from qkv.models.base import MaxLengths, Model, Parallel
from qkv.search.base import smallest
from qkv.search.protocol import BlockFunction, ForcedOutput, StepFunction, StepOutput
from qkv.search.speculative.blocks import ModelBlocks
from qkv.text.special import NEVER_OUTPUT

PIECE = 256
"""Positions per pass over given tokens: more take memory and are not faster."""


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

    src: Tensor
    src_keep: Tensor
    prefix: Tensor

    def reorder(self, rows: Tensor, sentences: Tensor) -> "PrefixState":
        return PrefixState(self.src[rows], self.src_keep[rows], self.prefix[rows])


class PrefixSteps:
    """The definition: each step reads the source and the whole prefix again. Cached steps are tested against it."""

    def __init__(self, model: Model) -> None:
        self.model = model

    @torch.no_grad()
    def start(self, src: Tensor, src_keep: Tensor, beams: int = 1) -> PrefixState:
        src, src_keep = src.repeat_interleave(beams, 0), src_keep.repeat_interleave(beams, 0)
        return PrefixState(src, src_keep, src.new_empty((len(src), 0)))

    @torch.no_grad()
    def step(self, tokens: Tensor, state: PrefixState) -> tuple[StepOutput, PrefixState]:
        prefix = torch.cat([state.prefix, tokens[:, None]], dim=1)
        weight = torch.ones(prefix.shape, device=prefix.device)
        output = self.model(Batch(state.src, state.src_keep, prefix, prefix, weight, list(range(len(prefix)))))
        states, context = output.states[:, -1], output.context.at((slice(None), -1))
        log_probs = self.model.head.log_probs(states, context, never=NEVER_OUTPUT)
        return StepOutput(log_probs, None), PrefixState(state.src, state.src_keep, prefix)

    def force(self, tokens: Tensor, state: PrefixState, beams: int) -> tuple[ForcedOutput, PrefixState]:
        return force_by_steps(self, tokens, state, beams)


class ModelSteps:
    """Cached steps of a model. It copies the weights: make a new one after they have changed."""

    def __init__(self, model: Model, attention: bool = False) -> None:
        self.model = model.inference().require_steps(attention)
        self.head = self.model.head
        self.attention = attention

    @torch.inference_mode()
    def start(self, src: Tensor, src_keep: Tensor, beams: int = 1) -> StepState:
        return self.model.start(src, src_keep, beams)

    @torch.inference_mode()
    def step(self, tokens: Tensor, state: StepState) -> tuple[StepOutput, StepState]:
        (states, context), after = self.model.extend(tokens[:, None], state)
        log_probs = self.head.log_probs(states, context, never=NEVER_OUTPUT)[:, 0]
        attention = context.attention[:, 0] if self.attention and context.attention is not None else None
        return StepOutput(log_probs, attention), after

    @torch.inference_mode()
    def force(self, tokens: Tensor, state: StepState, beams: int) -> tuple[ForcedOutput, StepState]:
        sentences = torch.arange(len(tokens), device=tokens.device)
        # All rows of a sentence read the same tokens: they are read once, and their keys and values are copied.
        state = state.reorder(sentences * beams, sentences)
        scores, weights = [], list[Tensor]()
        for first in range(0, tokens.shape[1] - 1, PIECE):
            read, said = tokens[:, first:-1][:, :PIECE], tokens[:, first + 1 :][:, :PIECE]
            (states, context), state = self.model.extend(read, state)
            scores.append(self.head.log_probs(states, context, never=NEVER_OUTPUT).gather(2, said[..., None])[..., 0])
            if self.attention and context.attention is not None:
                weights.append(context.attention)
        attention = torch.cat(weights, dim=1) if weights else None
        after = state.reorder(sentences.repeat_interleave(beams), sentences)
        return ForcedOutput(torch.cat(scores, dim=1), attention), after


class StaticSteps:
    """Cached steps of fixed shapes. It copies the weights: make a new one after they have changed."""

    def __init__(self, model: Model, attention: bool = False) -> None:
        self.model = model.inference().require_static(attention, NEVER_OUTPUT)
        self.attention = attention

    @torch.inference_mode()
    def start(self, src: Tensor, src_keep: Tensor, beams: int = 1) -> StepState:
        state: StepState = self.model.start(src, src_keep, beams)
        return state

    @torch.inference_mode()
    def step(self, tokens: Tensor, state: StepState) -> tuple[StepOutput, StepState]:
        (log_probs, attention), after = self.model.step(tokens, state)
        return StepOutput(log_probs, attention if self.attention else None), after

    @torch.inference_mode()
    def force(self, tokens: Tensor, state: StepState, beams: int) -> tuple[ForcedOutput, StepState]:
        return force_by_steps(self, tokens, state, beams)


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


class SearchedModels:
    """It holds the weights that the models have when something is first asked for."""

    def __init__(self, models: Sequence[Model], make_steps: Callable[[Model, bool], StepFunction] = ModelSteps) -> None:
        self.models, self.make_steps = models, make_steps
        self.src_limit, self.tgt_limit = MaxLengths(
            smallest([model.limits.src for model in models]), smallest([model.limits.tgt for model in models])
        )
        self._steps: dict[bool, StepFunction] = {}
        self._blocks: dict[bool, BlockFunction] = {}
        self._parallel: Parallel | None = None

    def steps(self, attention: bool) -> StepFunction:
        if attention not in self._steps:
            each = [self.make_steps(model, attention) for model in self.models]
            self._steps[attention] = each[0] if len(each) == 1 else Ensemble(each)
        return self._steps[attention]

    def blocks(self, attention: bool) -> BlockFunction:
        if attention not in self._blocks:
            if len(self.models) > 1:
                raise UsageError("drafts are verified by one model, not by an ensemble; drop one of the two")
            self._blocks[attention] = ModelBlocks(self.models[0], attention)
        return self._blocks[attention]

    def parallel(self) -> Parallel:
        if self._parallel is None:
            inference = self.models[0].inference()
            if inference.parallel is not None and len(self.models) > 1:
                raise UsageError(f"models of the kind {self.models[0].kind} cannot form an ensemble; give one of them")
            self._parallel = inference.require_parallel()
        return self._parallel

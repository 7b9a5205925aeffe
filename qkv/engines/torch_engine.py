"""The reference engine: our own search and model in PyTorch. It supports everything."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal

import torch

from qkv.core.devices import moved
from qkv.core.errors import UsageError
from qkv.data.batch import padded
from qkv.engines.alignments import AlignmentHead, with_alignments
from qkv.engines.base import DecodeRequest
from qkv.engines.copies import with_copies
from qkv.engines.likely import with_likely
from qkv.layers.frozen import frozen_copy
from qkv.models.base import Model
from qkv.models.saved.folder import SavedModel
from qkv.search.base import Search, SearchConfig, SearchTask, Watch, smallest
from qkv.search.hypothesis import Hypothesis
from qkv.search.models import ModelSteps, SearchedModels, StaticSteps
from qkv.search.walk import grouped
from qkv.text.special import SPECIAL

MOST_SEARCHES = 32
"""Searches that an engine keeps, the newest."""


HALF = {"fp16": torch.float16, "bf16": torch.bfloat16}
DecodingPrecision = Literal["fp32", "fp16", "bf16"]


@dataclass(frozen=True)
class TorchSettings:
    """How PyTorch computes."""

    precision: DecodingPrecision = "fp32"
    """Of weights and activations; softmax, norms and scores are in float32 always."""
    static_shapes: bool = False
    """Whether the tensors of a step keep their shapes, so that a CUDA device replays it as one graph."""


PLAIN = TorchSettings()


class TorchEngine:
    """One model, or an ensemble with one vocabulary. It holds the weights of its first use.

    `saved` is the first model as its folder holds it, for a search that needs to know: one with a drafter, or one whose
    outputs another model rescores.
    """

    name = "torch"
    parallel = 1
    batch_tokens = 4096

    def __init__(
        self, models: Sequence[Model], saved: SavedModel | None = None, settings: TorchSettings = PLAIN
    ) -> None:
        if settings.precision in HALF:
            models = [_in_half(model, settings.precision) for model in models]
            saved = None if saved is None else replace(saved, model=models[0])
        self.models = models
        self.saved = saved
        self.searched = SearchedModels(models, StaticSteps if settings.static_shapes else ModelSteps)
        self.src_limit = self.searched.src_limit
        self._searches: list[tuple[SearchConfig, Search]] = []

    def decode(self, sources: Sequence[list[int]], request: DecodeRequest) -> list[list[Hypothesis]]:
        found: dict[int, list[Hypothesis]] = {}
        for group in grouped(request.constraints):
            own = replace(
                request,
                constraints=[request.constraints[index] for index in group],
                detokenize=[request.detokenize[index] for index in group] if request.detokenize else (),
                watch=_renumbered(request.watch, group),
            )
            found |= zip(group, self._decode([sources[index] for index in group], own), strict=True)
        return [found[index] for index in range(len(sources))]

    def _built(self, config: SearchConfig) -> Search:
        """The search of a config, built once. Found by equality: a kind's settings may hold what cannot be hashed."""
        for known, search in self._searches:
            if known == config:
                return search
        search = config.build(self.saved)
        self._searches = [*self._searches[1 - MOST_SEARCHES :], (config, search)]
        return search

    def _decode(self, sources: Sequence[list[int]], request: DecodeRequest) -> list[list[Hypothesis]]:
        src, src_keep = (moved(part, self.models[0].device) for part in padded(list(sources), SPECIAL.pad))
        search = self._built(request.search)
        tgt_limit = smallest([self.searched.tgt_limit, search.tgt_limit])
        task = SearchTask(
            src=src,
            src_keep=src_keep,
            special=SPECIAL,
            limits=[
                request.search.limits(len(ids), tgt_limit, own.needed)
                for ids, own in zip(sources, request.constraints, strict=True)
            ],
            nbest=request.nbest,
            constraints=request.constraints,
            after_step=request.after_step,
            attention=request.attention is True,
            detokenize=request.detokenize,
            watch=request.watch,
        )
        with evaluating(self.models):
            found = search.search(task, self.searched)
            if isinstance(request.attention, AlignmentHead):
                found = with_alignments(self.models, sources, found, request.attention)
            found = with_copies(self.models, sources, found) if request.copies else found
            return with_likely(self.models, sources, found, request.likely) if request.likely else found


def _in_half(model: Model, precision: str) -> Model:
    """A copy whose weights have 16 bits."""
    half = frozen_copy(model).to(HALF[precision])
    if not all(bool(weight.isfinite().all()) for weight in half.parameters()):
        raise UsageError(f"precision {precision}: some weights are too large for it; use bf16 or fp32")
    return half


def _renumbered(watch: Watch | None, group: Sequence[int]) -> Watch | None:
    """`watch` for a group of the sentences, which the search numbers from 0."""
    if watch is None:
        return None
    return lambda place, tokens: watch(group[place], tokens)


@contextmanager
def evaluating(models: Sequence[Model]) -> Iterator[None]:
    """Context manager: evaluation mode inside, the previous mode afterwards."""
    # For a model in evaluation mode, visiting all modules would take as long as a short sentence.
    training = [model for model in models if model.training]
    try:
        for model in training:
            model.eval()
        yield
    finally:
        for model in training:
            model.train()

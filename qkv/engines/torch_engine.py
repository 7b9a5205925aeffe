"""The reference engine: our own search and model in PyTorch. It supports everything."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from qkv.core.errors import UsageError
from qkv.data.batch import padded
from qkv.engines.base import DecodeRequest
from qkv.inference.whole import fused
from qkv.models.base import Model
from qkv.models.parallel.base import ParallelModel
from qkv.search.base import SearchConfig, SearchTask
from qkv.search.forced import grouped
from qkv.search.greedy import GreedyConfig
from qkv.search.hypothesis import Hypothesis
from qkv.search.refinement.rescoring import Rescorer
from qkv.search.refinement.search import RefineConfig
from qkv.search.speculative.drafting import Drafting
from qkv.search.steps import Ensemble, ModelSteps, StepFunction
from qkv.text.special import SPECIAL


class TorchEngine:
    """One model, or an ensemble with one vocabulary. It copies the weights.

    With `drafting`, greedy search takes fewer passes for the same output. `rescorer` chooses among the outputs of a
    non-autoregressive model.
    """

    name = "torch"
    parallel = 1
    batch_tokens = 4096

    def __init__(
        self, models: Sequence[Model], drafting: Drafting | None = None, rescorer: Rescorer | None = None
    ) -> None:
        self.models = models
        self.drafting = drafting
        self.rescorer = rescorer
        self.src_limit = _smallest([model.limits.src for model in models])
        self.tgt_limit = _smallest([model.limits.tgt for model in models])
        if rescorer is not None:
            self.src_limit = _smallest([self.src_limit, rescorer.model.limits.src])
            self.tgt_limit = _smallest([self.tgt_limit, rescorer.tgt_limit])
        self._steps: dict[bool, StepFunction] = {}
        self._filler: ParallelModel | None = None

    def decode(self, sources: Sequence[list[int]], request: DecodeRequest) -> list[list[Hypothesis]]:
        found: dict[int, list[Hypothesis]] = {}
        for group in grouped(request.constraints):
            own = replace(request, constraints=[request.constraints[index] for index in group])
            found |= zip(group, self._decode([sources[index] for index in group], own), strict=True)
        return [found[index] for index in range(len(sources))]

    def _decode(self, sources: Sequence[list[int]], request: DecodeRequest) -> list[list[Hypothesis]]:
        src, src_keep = padded(list(sources), SPECIAL.pad)
        task = SearchTask(
            src=src,
            src_keep=src_keep,
            special=SPECIAL,
            limits=[
                request.search.limits(len(ids), self.tgt_limit, own.needed)
                for ids, own in zip(sources, request.constraints, strict=True)
            ],
            nbest=request.nbest,
            constraints=request.constraints,
            after_step=request.after_step,
            detokenize=request.detokenize,
        )
        with evaluating(self.models):
            if isinstance(request.search, RefineConfig):
                return request.search.fill(self._parallel(request), task, rescorer=self.rescorer)
            self._refuse_parallel(request.search)
            attention = request.attention or request.search.needs_attention
            if isinstance(request.search, GreedyConfig) and self.drafting:
                return self.drafting.run(request.search, task, attention)
            return request.search.run(self._step_function(attention), task)

    def _parallel(self, request: DecodeRequest) -> ParallelModel:
        """The one model that fills canvases; raises UsageError if there is none."""
        model = self.models[0]
        if not isinstance(model, ParallelModel):
            raise UsageError("the model is autoregressive, so it has no search refine: use beam, greedy, sample or mbr")
        if len(self.models) > 1:
            raise UsageError(f"models of the kind {model.kind} cannot vote: give one of them")
        if request.attention:
            raise UsageError(f"a model of the kind {model.kind} tells no alignment; leave it out")
        if self._filler is None:
            self._filler = fused(model)
        return self._filler

    def _refuse_parallel(self, search: SearchConfig) -> None:
        for model in self.models:
            if isinstance(model, ParallelModel):
                name = type(search).model_fields["kind"].default
                raise UsageError(f"the model is of the kind {model.kind}, so it has no search {name}: use refine")

    def _step_function(self, attention: bool) -> StepFunction:
        if attention not in self._steps:
            each = [ModelSteps(model, attention) for model in self.models]
            self._steps[attention] = each[0] if len(each) == 1 else Ensemble(each)
        return self._steps[attention]


def _smallest(limits: Sequence[int | None]) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)


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

"""Models as searches ask for them: one, or several with one vocabulary that vote."""

from collections.abc import Sequence
from typing import Any

from qkv.core.errors import UsageError
from qkv.models.base import MaxLengths, Model
from qkv.search.protocol import BlockFunction, StepFunction
from qkv.search.speculative.blocks import ModelBlocks
from qkv.search.steps import Ensemble, ModelSteps


class SearchedModels:
    """It holds the weights that the models have when something is first asked for."""

    def __init__(self, models: Sequence[Model]) -> None:
        self.models = models
        self.src_limit, self.tgt_limit = MaxLengths(
            smallest([model.limits.src for model in models]), smallest([model.limits.tgt for model in models])
        )
        self._steps: dict[bool, StepFunction] = {}
        self._blocks: dict[bool, BlockFunction] = {}
        self._parallel: Any = None

    def steps(self, attention: bool) -> StepFunction:
        if attention not in self._steps:
            for model in self.models:
                if model.inference().steps is None:
                    raise UsageError(f"the model is of the kind {model.kind}, so it has no next token: use refine")
            each = [ModelSteps(model, attention) for model in self.models]
            self._steps[attention] = each[0] if len(each) == 1 else Ensemble(each)
        return self._steps[attention]

    def blocks(self, attention: bool) -> BlockFunction:
        if attention not in self._blocks:
            if len(self.models) > 1:
                raise UsageError("drafts are verified by one model, not by several that vote; leave out one of the two")
            self._blocks[attention] = ModelBlocks(self.models[0], attention)
        return self._blocks[attention]

    def parallel(self) -> Any:
        if self._parallel is None:
            model = self.models[0]
            parallel = model.inference().parallel
            if parallel is None:
                raise UsageError(
                    "the model is autoregressive, so it has no search refine: use beam, greedy, sample or mbr"
                )
            if len(self.models) > 1:
                raise UsageError(f"models of the kind {model.kind} cannot vote: give one of them")
            self._parallel = parallel()
        return self._parallel


def smallest(limits: Sequence[int | None]) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)

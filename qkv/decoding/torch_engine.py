"""The engine that does everything: our own search over our own model, in PyTorch."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from qkv.data.batch import padded
from qkv.decoding.engine import DecodeRequest
from qkv.decoding.hypothesis import Hypothesis
from qkv.decoding.search import SearchTask
from qkv.decoding.steps import Ensemble, ModelSteps, StepFunction
from qkv.models.seq2seq import Seq2Seq
from qkv.text.special import SPECIAL


class TorchEngine:
    """One model, or several with one vocabulary that vote. It holds the weights that they have now."""

    name = "torch"
    parallel = 1
    batch_tokens = 4096

    def __init__(self, models: Sequence[Seq2Seq]) -> None:
        self.models = models
        self.src_limit = _smallest([model.src_embedder.positions.max_length for model in models])
        self.tgt_limit = _smallest([model.tgt_embedder.positions.max_length for model in models])
        self._steps: dict[bool, StepFunction] = {}

    def decode(self, sources: Sequence[list[int]], request: DecodeRequest) -> list[list[Hypothesis]]:
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
            return request.search.run(self._step_function(request.attention or request.search.needs_attention), task)

    def _step_function(self, attention: bool) -> StepFunction:
        if attention not in self._steps:
            each = [ModelSteps(model, attention) for model in self.models]
            self._steps[attention] = each[0] if len(each) == 1 else Ensemble(each)
        return self._steps[attention]


def _smallest(limits: Sequence[int | None]) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)


@contextmanager
def evaluating(models: Sequence[Seq2Seq]) -> Iterator[None]:
    """Inside, nothing is dropped; afterwards each model is in the mode that it was in."""
    # Going through all modules of a model that evaluates already would take as long as a short sentence.
    training = [model for model in models if model.training]
    try:
        for model in training:
            model.eval()
        yield
    finally:
        for model in training:
            model.train()

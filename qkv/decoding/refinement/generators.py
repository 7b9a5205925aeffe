"""Which generator a model is decoded by."""

from qkv.decoding.refinement.base import Generator, Wanted
from qkv.decoding.refinement.ctc import CtcGenerator
from qkv.models.decoders.ctc import CtcModel
from qkv.models.parallel import ParallelModel


def generator_for(model: ParallelModel, wanted: Wanted) -> Generator:
    if isinstance(model, CtcModel):
        return CtcGenerator(model, wanted)
    raise NotImplementedError(model.kind)

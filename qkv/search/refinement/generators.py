"""Which generator a model is decoded by."""

from collections.abc import Callable
from typing import Any

from qkv.models.decoders.canvas import CanvasModel
from qkv.models.decoders.ctc import CtcModel
from qkv.models.decoders.dag import DagModel
from qkv.models.decoders.mask_predict import MaskPredictModel
from qkv.models.decoders.nat import NatModel
from qkv.models.parallel.base import ParallelModel
from qkv.search.refinement.base import Generator, Wanted
from qkv.search.refinement.ctc import CtcGenerator
from qkv.search.refinement.dag import DagGenerator
from qkv.search.refinement.long_canvas import CanvasGenerator
from qkv.search.refinement.nat import MaskPredictGenerator, NatGenerator

GENERATORS: dict[type[ParallelModel], Callable[[Any, Wanted], Generator]] = {
    CanvasModel: CanvasGenerator,
    CtcModel: CtcGenerator,
    DagModel: DagGenerator,
    MaskPredictModel: MaskPredictGenerator,
    NatModel: NatGenerator,
}


def generator_for(model: ParallelModel, wanted: Wanted) -> Generator:
    return GENERATORS[type(model)](model, wanted)

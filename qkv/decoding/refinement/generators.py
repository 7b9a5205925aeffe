"""Which generator a model is decoded by."""

from collections.abc import Callable
from typing import Any

from qkv.decoding.refinement.base import Generator, Wanted
from qkv.decoding.refinement.ctc import CtcGenerator
from qkv.decoding.refinement.dag import DagGenerator
from qkv.decoding.refinement.long_canvas import CanvasGenerator
from qkv.decoding.refinement.nat import MaskPredictGenerator, NatGenerator
from qkv.models.decoders.canvas import CanvasModel
from qkv.models.decoders.ctc import CtcModel
from qkv.models.decoders.dag import DagModel
from qkv.models.decoders.mask_predict import MaskPredictModel
from qkv.models.decoders.nat import NatModel
from qkv.models.parallel import ParallelModel

GENERATORS: dict[type[ParallelModel], Callable[[Any, Wanted], Generator]] = {
    CanvasModel: CanvasGenerator,
    CtcModel: CtcGenerator,
    DagModel: DagGenerator,
    MaskPredictModel: MaskPredictGenerator,
    NatModel: NatGenerator,
}


def generator_for(model: ParallelModel, wanted: Wanted) -> Generator:
    return GENERATORS[type(model)](model, wanted)

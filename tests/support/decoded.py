"""Every part of the Transformer, and what some sources become by an engine with given settings."""

from typing import Any

from qkv.engines.base import DecodeRequest
from qkv.engines.torch_engine import TorchEngine, TorchSettings
from qkv.models.base import Model
from qkv.models.heads import heads
from qkv.search.base import Constraints, SearchConfig
from qkv.search.hypothesis import Hypothesis
from qkv.text import SPECIAL
from tests.support.attentions import ENCODER, FOLLOWING, everywhere
from tests.support.parts import PARTS

SOURCES = [[5, 9, 8, 11, SPECIAL.eos], [7, SPECIAL.eos], [6, 6, 7, SPECIAL.eos]]
LIMITS: dict[str, Any] = {"max_factor": 2.0, "max_extra": 4}
EVERY_PART: list[dict[str, Any]] = [{}, *PARTS, *map(everywhere, [*ENCODER, *FOLLOWING]), {"share_layers": True}]
EVERY_PART += [{"head": kind} for kind in heads.names() if kind != "linear"]


def decoded(model: Model, search: SearchConfig, settings: TorchSettings, **request: Any) -> list[list[Hypothesis]]:
    engine = TorchEngine([model.eval()], settings=settings)
    return engine.decode(SOURCES, DecodeRequest(search, 1, [Constraints()] * len(SOURCES), **request))


def depth_for(parts: dict[str, Any]) -> dict[str, Any]:
    """One layer in the encoder, unless the parts are for two."""
    return {} if any(word in str(parts) for word in ("wiring", "stack", "[2, 6]")) else {"encoder_layers": 1}

"""Small non-autoregressive models, and one that always knows the answer."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from qkv.engines.base import DecodeRequest
from qkv.engines.torch_engine import TorchEngine
from qkv.models.base import Model
from qkv.models.decoders import decoders
from qkv.models.parallel.base import EncodedSource, ParallelModel
from qkv.objectives.base import Objective
from qkv.objectives.build import build_objective
from qkv.objectives.teacher_forcing import ObjectiveConfig
from qkv.search.base import Constraints
from qkv.search.hypothesis import Hypothesis
from qkv.search.refinement.search import RefineConfig
from qkv.text import SPECIAL
from tests.support.small import VOCAB, small_config, small_model

PARALLEL = [kind for kind in decoders.names() if not decoders[kind]().autoregressive]


def parallel_model(decoder: str | dict[str, Any], seed: int = 0, **changes: Any) -> Any:
    """In evaluation mode."""
    model = small_model(seed, decoder=decoder, **changes).eval()
    assert isinstance(model, ParallelModel)
    return model


def objective_of(decoder: str | dict[str, Any], **config: Any) -> Objective:
    kind = small_config(decoder=decoder).decoder
    return build_objective(ObjectiveConfig(**config), kind, VOCAB, SPECIAL, lambda: torch.ones(VOCAB))


def refining(**search: Any) -> RefineConfig:
    """A config with keys of any reader."""
    return RefineConfig.model_validate(search)


def decode(model: Model, sources: Sequence[list[int]], nbest: int = 1, **search: Any) -> list[list[Hypothesis]]:
    """Sources without END."""
    request = DecodeRequest(refining(**search), nbest, [Constraints()] * len(sources))
    return TorchEngine([model]).decode([[*ids, SPECIAL.eos] for ids in sources], request)


def know(model: Any, answers: Tensor, sure: Tensor | None = None) -> list[Tensor]:
    """Let `model` say answers[:, t] at position t, whatever it reads; returns the canvases that it is shown.

    `sure` [passes, B, T] says how sure it is of each in each pass.
    """
    seen: list[Tensor] = []
    width = model.head.weight.shape[1]
    with torch.no_grad():
        model.head.weight = torch.nn.Parameter(torch.eye(len(model.head.weight), width))

    def fill(canvas: Tensor, source: EncodedSource) -> Tensor:
        seen.append(canvas)
        vectors = torch.nn.functional.one_hot(answers[:, : canvas.shape[1]], width).float()
        return 20 * vectors if sure is None else vectors * sure[len(seen) - 1, :, : canvas.shape[1], None]

    model.fill = fill
    return seen

"""What every optimiser does, and how one is chosen by `kind:`."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Annotated, ClassVar, Protocol

from pydantic import Field
from torch import Tensor, nn

from qkv.config.base import Config, Kinds


class Optimizer(Protocol):
    """Moves the weights of a model by their gradients. Its state is named tensors, so checkpoints need no pickle."""

    def step(self, rate: float) -> None:
        """One update with this learning rate."""
        ...

    def averaged(self) -> AbstractContextManager[None]:
        """Inside, the model has the weights by which it is validated and saved; afterwards its own again."""
        ...

    def tensors(self) -> dict[str, Tensor]:
        """Everything that the next step depends on besides weights and gradients, as `moment/parameter`."""
        ...

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Load what `tensors` returned."""
        ...


class OptimizerConfig(Config):
    """How weights follow gradients."""

    averages: ClassVar[bool] = False
    """Whether the model is validated and saved by an average of its weights that the optimiser holds."""

    kind: str
    weight_decay: float = Field(default=0.0, ge=0)
    """Decoupled weight decay of the matrices; biases and norms have none."""
    clip_norm: float | None = Field(default=1.0, gt=0)
    """Longest gradient of an update; null switches clipping off."""

    def build(self, model: nn.Module) -> Optimizer:
        raise NotImplementedError


optimizers = Kinds[OptimizerConfig]("optimizer")
"""Registry of the optimisers."""
AnyOptimizer = Annotated[OptimizerConfig, optimizers]


def gradient(name: str, parameter: nn.Parameter) -> Tensor:
    """The parameter's gradient; raises where a part of the model took no part in the loss."""
    if parameter.grad is None:
        raise ValueError(f"{name} has no gradient")
    return parameter.grad

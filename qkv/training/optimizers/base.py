"""What every optimiser does, and how one is chosen by `kind:`."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Annotated, ClassVar, Protocol, cast

from pydantic import Field
from torch import Tensor, nn

from qkv.config.base import Config, Kinds


class Optimizer(Protocol):
    """Updates the weights of a model from their gradients. Its state is named tensors: checkpoints need no pickle."""

    def step(self, rate: float) -> None:
        """One update with this learning rate."""
        ...

    def averaged(self) -> AbstractContextManager[None]:
        """Context in which the model has the weights that are validated and saved; its own are restored afterwards."""
        ...

    def tensors(self) -> dict[str, Tensor]:
        """Everything that the next step depends on besides weights and gradients, as `moment/parameter`."""
        ...

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Load the state that `tensors` returned."""
        ...


class OptimizerConfig(Config):
    """The optimiser."""

    shards: ClassVar[bool] = False
    """Whether it can update a sharded model, whose parameters and gradients are DTensors."""
    averages: ClassVar[bool] = False
    """Whether the optimiser keeps an average of the weights, which is then validated and saved."""

    kind: str
    weight_decay: float = Field(default=0.0, ge=0)
    """Decoupled weight decay of the matrices; biases and norms have none."""
    clip_norm: float | None = Field(default=1.0, gt=0)
    """Maximum gradient norm; null: no clipping."""

    def build(self, model: nn.Module) -> Optimizer:
        raise NotImplementedError


optimizers = Kinds[OptimizerConfig]("optimizer")
"""Registry of the optimisers."""
AnyOptimizer = Annotated[OptimizerConfig, optimizers]


def whole_tensor(tensor: Tensor) -> Tensor:
    """The tensor; if this process holds a shard of it (a DTensor), put together from all ranks."""
    gather = getattr(tensor, "full_tensor", None)
    return tensor if gather is None else cast(Tensor, gather())


def shard_like(tensor: Tensor, other: Tensor) -> Tensor:
    """What this process keeps of a whole tensor, sharded as `other` is; all of it if that is whole, too."""
    if not hasattr(other, "device_mesh"):
        return tensor
    from torch.distributed.tensor import DTensor, distribute_tensor  # loaded already, by whatever made `other`

    assert isinstance(other, DTensor)
    # Every rank has the whole tensor, so nothing is sent.
    return distribute_tensor(tensor, other.device_mesh, other.placements, src_data_rank=None)


def gradient(name: str, parameter: nn.Parameter) -> Tensor:
    """The parameter's gradient; raises if the parameter did not contribute to the loss."""
    if parameter.grad is None:
        raise ValueError(f"{name} has no gradient")
    return parameter.grad

"""A model whose weights are spread over the ranks: `fully_shard` of each layer, and of all that is in no layer."""

import warnings
from collections import Counter

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

from qkv.data.tasks.base import TrainingBatch
from qkv.layers.residual import Residual
from qkv.models.base import Model
from qkv.models.transformer.stacks.base import separate_layers
from qkv.objectives.base import Objective


class LossModule(nn.Module):
    """The loss of a batch as the forward pass of a module.

    Whatever an objective does with a model happens inside of it, so FSDP's hooks put the weights together that belong
    to no layer (embeddings, output) before the first of them is used, and part them after the backward pass.
    """

    def __init__(self, model: Model, objective: Objective) -> None:
        super().__init__()
        self.model = model
        self.objective = objective

    def forward(self, batch: TrainingBatch, update: int) -> tuple[Tensor, Tensor]:
        """What is minimised, and the numbers [4] of its report."""
        report = self.objective.training_loss(self.model, batch, update)
        return report.sum, report.numbers


def shard(model: Model, objective: Objective, device: torch.device, low: torch.dtype | None = None) -> LossModule:
    """Spread the weights of `model` over all ranks, in place; returns what computes its loss.

    `low` is the type of matrix products. The matrices of a layer are sent as that, since autocast would make them so
    anyway; norms, and what is in no layer (embeddings, output), as float32, and gradients are always summed as float32.
    """
    # The layers return views, and nothing here changes one in place.
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module")
    mesh = dist.device_mesh.init_device_mesh(device.type, (dist.get_world_size(),))
    for layer in layers_of_their_own(model):
        policy = MixedPrecisionPolicy()
        if low is not None and only_matrices(layer):
            # A type is that of a group, so the norms become one of their own.
            if normed := residuals_with_weights(layer):
                fully_shard(normed, mesh=mesh)
            policy = MixedPrecisionPolicy(param_dtype=low, reduce_dtype=torch.float32, cast_forward_inputs=False)
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    module = LossModule(model, objective)
    fully_shard(module, mesh=mesh)
    for part in module.modules():
        if isinstance(part, FSDPModule):
            # Sums, not means: an update is divided once, by its target tokens.
            part.set_gradient_divide_factor(1.0)
            part.set_force_sum_reduction_for_comms(True)
    _root(module).set_reduce_scatter_unused_params(True)
    return module


def layers_of_their_own(model: Model) -> list[nn.Module]:
    """The layers that can be put together one by one: those that share no weight with another part of the model."""
    uses = _uses(model)
    return [
        layer
        for layer in separate_layers(model)
        if all(count == uses[parameter] for parameter, count in _uses(layer).items())
    ]


def only_matrices(layer: nn.Module) -> bool:
    """Whether all weights of a layer but those of its residual connections go into matrix products alone."""
    linear = {weight for part in layer.modules() if isinstance(part, nn.Linear) for weight in part.parameters()}
    normed = {weight for part in _residuals(layer) for weight in part.parameters()}
    return all(weight in linear or weight in normed for weight in layer.parameters())


def residuals_with_weights(layer: nn.Module) -> list[nn.Module]:
    return [part for part in _residuals(layer) if next(part.parameters(), None) is not None]


def _residuals(layer: nn.Module) -> list[Residual]:
    return [part for part in layer.modules() if isinstance(part, Residual)]


def _uses(module: nn.Module) -> Counter[nn.Parameter]:
    """How many names each parameter has."""
    return Counter(parameter for _, parameter in module.named_parameters(remove_duplicate=False))


def _root(module: LossModule) -> FSDPModule:
    assert isinstance(module, FSDPModule)
    return module


def reduce_gradients(module: LossModule, whether: bool) -> None:
    """Whether the next backward pass sums the gradients over the ranks, or keeps them for the one after it."""
    _root(module).set_requires_gradient_sync(whether)

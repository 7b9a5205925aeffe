"""The memory of a training process: what becomes of freed memory, and whether a model fits before it is built."""

import os

import torch

from qkv.core.devices import CPU, choose_device
from qkv.core.errors import QkvError
from qkv.kernels.memory import available_memory, keep_freed_memory, return_freed_memory
from qkv.models.size import count_parameters
from qkv.training.recipe import Recipe, TrainingConfig
from qkv.training.setup.prepare import PreparedData

GIB = 1 << 30
NUMBERS = 4
"""Copies of each parameter: the weight, its gradient, and two optimiser moments (Muon has one for most)."""
BYTES = 4


def set_memory(sharding: str, device: torch.device) -> None:
    """On a CPU, keep freed memory, which is faster, or return it, if the model is sharded because memory is short."""
    if device == CPU:
        keep_freed_memory() if sharding == "none" else return_freed_memory()


def require_training_memory(recipe: Recipe, prepared: PreparedData, world: int | None = None) -> None:
    """Reject a model whose parameters, gradients and optimiser state alone do not fit; activations come on top.

    `world`: the number of ranks under torchrun.
    """
    training, parameters = recipe.training, count_parameters(recipe.model, prepared.tokenizers)
    assert training.workers != "auto"
    here = training.workers if world is None else int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    copies = copies_held(training, here, world or here)
    needed, free = int(parameters * copies * BYTES), available_memory()
    if free is not None and needed > free:
        on_cpu = choose_device(training.device) == CPU
        what = "for them, their gradients and the optimiser" if on_cpu else "while it is built"
        raise QkvError(
            f"the model has {parameters:,} parameters: training it takes {needed / GIB:,.1f} GiB of memory {what} in "
            f"{here} process(es), and {free / GIB:,.1f} GiB are free; choose a smaller model.d_model, model.d_ff or "
            f"number of layers{_less(training, here, world)}"
        )


def _less(training: TrainingConfig, here: int, world: int | None) -> str:
    """What else lowers the memory that this machine needs, as the end of a sentence."""
    ways = []
    if here > 1:
        ways.append("fewer training.workers" if world is None else "fewer processes on each machine (--nproc-per-node)")
    if copies_held(training.model_copy(update={"sharding": "full"}), here, world or here) < copies_held(
        training, here, world or here
    ):
        ways.append("training.sharding full")
    return "".join(f", or {way}" for way in ways)


def copies_held(training: TrainingConfig, here: int, world: int) -> float:
    """How many numbers this machine holds for each parameter, in `here` of the `world` processes of a run."""
    sharded = training.sharding == "full" and world > 1
    # Each process builds the whole model; rank 0 of a sharded run has a second one, to put it together again.
    built = here + sharded
    if choose_device(training.device) != CPU:
        return built  # and moves it to its device
    numbers = NUMBERS + (training.ema is not None)
    return max(built, 1 + here * numbers / world) if sharded else here * numbers

"""The memory of a training process: what becomes of freed memory, and whether a model fits before it is built."""

import torch

from qkv.core.devices import CPU
from qkv.core.errors import QkvError
from qkv.kernels.memory import available_memory, keep_freed_memory, return_freed_memory
from qkv.models.size import count_parameters
from qkv.training.recipe import Recipe
from qkv.training.setup.prepare import PreparedData

GIB = 1 << 30
NUMBERS = 4
"""Copies of each parameter: the weight, its gradient, and two optimiser moments (Muon has one for most)."""
BYTES = 4


def set_memory(sharding: str, device: torch.device) -> None:
    """On a CPU, keep freed memory, which is faster, or return it, if the model is sharded because memory is short."""
    if device == CPU:
        keep_freed_memory() if sharding == "none" else return_freed_memory()


def require_training_memory(recipe: Recipe, prepared: PreparedData) -> None:
    """Reject a model whose parameters, gradients and optimiser state alone do not fit; activations come on top."""
    parameters, workers = count_parameters(recipe.model, prepared.tokenizers), recipe.training.workers
    assert workers != "auto"
    numbers = NUMBERS + (recipe.training.ema is not None)
    needed, free = parameters * numbers * BYTES * workers, available_memory()
    if free is not None and needed > free:
        raise QkvError(
            f"the model has {parameters:,} parameters: training it takes {needed / GIB:,.1f} GiB of memory for them, "
            f"their gradients and the optimiser in {workers} worker(s), and {free / GIB:,.1f} GiB are free; choose a "
            "smaller model.d_model, model.d_ff or number of layers, or fewer training.workers"
        )

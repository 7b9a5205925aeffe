"""The kinds of model, as the type of a field."""

from typing import Annotated

from qkv.models.bytenet import config as bytenet
from qkv.models.config import ModelConfig, models
from qkv.models.convolutional import config as convolutional
from qkv.models.forecasting import config as forecasting
from qkv.models.language import causal as causal_lm
from qkv.models.language import classify, masked, text_to_text
from qkv.models.memory_network import config as memory_network
from qkv.models.neural_gpu import config as neural_gpu
from qkv.models.recurrent import config as recurrent
from qkv.models.transformer import config as transformer
from qkv.models.vision import config as vision

AnyModel = Annotated[ModelConfig, models]

__all__ = [
    "AnyModel",
    "bytenet",
    "causal_lm",
    "classify",
    "convolutional",
    "forecasting",
    "masked",
    "memory_network",
    "models",
    "neural_gpu",
    "recurrent",
    "text_to_text",
    "transformer",
    "vision",
]

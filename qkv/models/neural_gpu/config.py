"""The sizes of a Neural GPU."""

from typing import Literal

from pydantic import Field, model_validator

from qkv.models.config import models
from qkv.models.heads.linear import LinearHeadConfig
from qkv.models.neural_gpu.layers import MemoryStep
from qkv.models.neural_gpu.model import NeuralGPU
from qkv.models.stepwise import StepwiseConfig
from qkv.text import TokenizerPair


@models.register
class NeuralGPUConfig(StepwiseConfig):
    """The Extended Neural GPU (Kaiser and Bengio 2016): a memory that every step rewrites, no attention."""

    kind: Literal["neural_gpu"] = "neural_gpu"
    d_model: int = Field(default=64, ge=1, le=1 << 20)
    """Width of embeddings and of each cell of the memory."""
    rows: int = Field(default=4, ge=1, le=1000)
    """Rows of the memory; source and outputs are in the first one."""
    kernel: int = Field(default=3, ge=1, le=255)
    """Cells that a convolution reads; odd."""
    layers: int = Field(default=2, ge=1, le=1000)
    """Gated units of one step, for reading and for writing."""
    length_ratio: float = Field(default=1.2, ge=1, le=100, allow_inf_nan=False)
    """Cells of the memory for each source token; output t reads cell t."""

    @property
    def own_layers(self) -> int:
        return 2 * self.layers

    def build(self, tokenizers: TokenizerPair) -> NeuralGPU:
        tables = self.token_tables(tokenizers)
        encoder, decoder = (
            MemoryStep(self.d_model, self.kernel, self.rows, self.layers, tape) for tape in (False, True)
        )
        head = self.head.build(tables.out.weight)
        return NeuralGPU(tables.src, tables.tgt, encoder, decoder, head, self.rows, self.length_ratio, self.dropout)

    def state_size(self, src_length: int, tgt_length: int) -> int:
        # Memory and tape.
        return 2 * self.d_model * self.rows * int(self.length_ratio * src_length + 1)

    def overrides_for(self, d_model: int, d_ff: int, num_heads: int, layers: int) -> str | None:
        if self.d_model <= d_model and self.layers <= layers:
            return None
        return f"model.d_model={d_model} model.layers=1"

    @model_validator(mode="after")
    def _fits(self) -> "NeuralGPUConfig":
        if self.kernel % 2 == 0:
            raise ValueError(f"kernel ({self.kernel}) must be odd, so that a cell reads as far left as right")
        if not isinstance(self.head, LinearHeadConfig):
            raise ValueError(f"head {self.head.kind} is for model.kind transformer or recurrent; use linear")
        return self

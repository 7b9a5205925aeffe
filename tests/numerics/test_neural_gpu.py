"""The Neural GPU against its equations as loops, and the properties by which its memory is defined."""

import pytest
import torch
from torch import Tensor, nn

from qkv.models.neural_gpu.config import NeuralGPUConfig
from qkv.models.neural_gpu.layers import ConvolutionalGRU
from qkv.models.neural_gpu.model import NeuralGPU
from tests.support.small import batch_of, small_text, stir

_, TOKENIZERS = small_text()


def convolution(module: nn.Conv2d, x: Tensor) -> Tensor:
    """Σ over the neighbours of each cell, zeros outside; x [D, rows, n]."""
    weight, bias = module.weight, module.bias
    rows, cells = x.shape[1:]
    high, wide = weight.shape[2] // 2, weight.shape[3] // 2
    found = torch.zeros(len(weight), rows, cells, dtype=x.dtype)
    for row in range(rows):
        for cell in range(cells):
            for down in range(-high, high + 1):
                for right in range(-wide, wide + 1):
                    if 0 <= row + down < rows and 0 <= cell + right < cells:
                        kernel = weight[:, :, down + high, right + wide]
                        found[:, row, cell] += kernel @ x[:, row + down, cell + right]
    return found if bias is None else found + bias[:, None, None]


def cgru(unit: ConvolutionalGRU, s: Tensor, tape: Tensor | None) -> Tensor:
    scores, added = convolution(unit.gates, s), torch.zeros_like(s)
    if tape is not None:
        assert unit.from_tape is not None
        of_tape = convolution(unit.from_tape, tape)
        scores, added = scores + of_tape[: 2 * len(s)], of_tape[2 * len(s) :]
    u, r = (1.2 * torch.sigmoid(scores) - 0.1).clamp(0, 1).chunk(2)
    return u * s + (1 - u) * torch.tanh(convolution(unit.candidate, r * s) + added)


def model(rows: int) -> NeuralGPU:
    torch.manual_seed(0)
    built = NeuralGPUConfig(d_model=6, rows=rows, layers=2, dropout=0.0, length_ratio=1.3).build(TOKENIZERS)
    stir(built)
    return built.double().eval()


@pytest.mark.parametrize("rows", [1, 3])
@torch.no_grad()
def test_the_model_is_its_equations(rows: int) -> None:
    gpu, batch = model(rows), batch_of([(3, 4), (1, 2)], vocab=len(TOKENIZERS.tgt))
    found = gpu(batch).states
    for row, (src, tgt, cells) in enumerate([(4, 5, 6), (2, 3, 3)]):
        s = torch.zeros(6, rows, cells, dtype=torch.float64)
        s[:, 0, :src] = gpu.src_tokens(batch.src[row : row + 1, :src])[0].T
        for _ in range(src):
            for unit in gpu.encoder.units:
                assert isinstance(unit, ConvolutionalGRU)
                s = cgru(unit, s, None)
        tape = torch.zeros_like(s)
        for step in range(tgt):
            if step:
                tape[:, 0, step - 1] = gpu.tgt_tokens(batch.tgt_in[row : row + 1, step : step + 1])[0, 0]
            for unit in gpu.decoder.units:
                assert isinstance(unit, ConvolutionalGRU)
                s = cgru(unit, s, tape)
            torch.testing.assert_close(found[row, step], s[:, 0, step], atol=1e-12, rtol=0)


@torch.no_grad()
def test_away_from_the_borders_a_shifted_memory_gives_the_shifted_result() -> None:
    torch.manual_seed(0)
    unit = ConvolutionalGRU(6, 3, rows=2).double()
    memory = torch.randn(2, 6, 2, 12).double()
    shifted = torch.cat([torch.randn(2, 6, 2, 3).double(), memory], dim=3)
    torch.testing.assert_close(unit(shifted)[..., 5:13], unit(memory)[..., 2:10], atol=1e-12, rtol=0)
    assert not torch.allclose(unit(shifted)[..., 3:4], unit(memory)[..., :1])


@torch.no_grad()
def test_an_open_update_gate_keeps_the_memory() -> None:
    unit = ConvolutionalGRU(6, 3, rows=2).double()
    memory = torch.randn(2, 6, 2, 7).double()
    assert not torch.allclose(unit(memory), memory)
    nn.init.zeros_(unit.gates.weight)
    nn.init.constant_(unit.gates.get_parameter("bias"), 5.0)
    assert torch.equal(unit(memory), memory)


@torch.no_grad()
def test_behind_the_last_cell_the_head_reads_zeros() -> None:
    gpu, batch = model(1), batch_of([(1, 6)], vocab=len(TOKENIZERS.tgt))
    states = gpu(batch).states[0]
    assert bool(states[:3].any(dim=-1).all())
    assert not states[3:].any()

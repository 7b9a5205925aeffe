"""Weights in fewer bits: what is stored, what comes back, and what is refused."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from qkv.core.errors import ArgumentError, CorruptFolder
from qkv.models.saved.folder import WEIGHTS, SavedConfig, SavedModel, load_model, save_model
from qkv.models.saved.weights import (
    SCALE,
    dequantize_rows,
    from_storage,
    named_weights,
    quantize_rows,
    read_weights,
    to_storage,
)
from tests.support.small import small_config, small_text, stir


@pytest.fixture(scope="module")
def saved() -> SavedModel:
    torch.manual_seed(0)
    text, tokenizers = small_text()
    config = small_config(encoder_layers=1, decoder_layers=1)
    model = config.build(tokenizers)
    stir(model)
    return SavedModel(model, tokenizers, SavedConfig(model=config, text=text))


def test_a_row_is_off_by_half_a_step_at_most() -> None:
    torch.manual_seed(1)
    weight = torch.randn(7, 33, dtype=torch.float64) * torch.logspace(-6, 3, 7, dtype=torch.float64)[:, None]
    weight[3] = 0
    steps, scale = quantize_rows(weight)
    assert steps.dtype == torch.int8
    for row, back, step in zip(weight.tolist(), dequantize_rows(steps, scale).tolist(), scale.tolist(), strict=True):
        assert all(abs(a - b) <= step * 0.5001 for a, b in zip(row, back, strict=True))
        assert max(map(abs, back)) == pytest.approx(max(map(abs, row)))


def test_what_is_quantised_once_stays_as_it_is() -> None:
    torch.manual_seed(2)
    once = from_storage(to_storage({"w": torch.randn(5, 8)}, "int8"))
    twice = from_storage(to_storage(once, "int8"))
    torch.testing.assert_close(once, twice, rtol=1e-6, atol=0)


@pytest.mark.parametrize(("storage", "largest"), [("float16", 0.5), ("int8", 0.35)])
def test_a_model_in_fewer_bits_is_smaller_and_loads_as_float32(
    saved: SavedModel, tmp_path: Path, storage: str, largest: float
) -> None:
    save_model(tmp_path / "full", saved)
    save_model(tmp_path / "small", saved, storage=storage)
    files = [load_file(tmp_path / name / WEIGHTS) for name in ("small", "full")]
    sizes = [sum(tensor.nbytes for tensor in file.values()) for file in files]
    assert sizes[0] <= largest * sizes[1]
    weights = named_weights(load_model(tmp_path / "small").model)
    for name, weight in named_weights(saved.model).items():
        assert weights[name].dtype == torch.float32
        torch.testing.assert_close(weights[name], weight, rtol=1e-3, atol=float(weight.abs().max()) / 200)


def test_an_unknown_storage_is_refused(saved: SavedModel, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="storage: must be float32, float16 or int8, not 'int4'"):
        save_model(tmp_path / "model", saved, storage="int4")
    assert not (tmp_path / "model").exists()


def test_scales_that_do_not_fit_are_refused(saved: SavedModel, tmp_path: Path) -> None:
    save_model(tmp_path / "model", saved, storage="int8")
    tensors = load_file(tmp_path / "model" / WEIGHTS)
    name = next(name for name in tensors if name.endswith(SCALE))
    save_file({**tensors, name: tensors[name][:-1].clone()}, tmp_path / "short")
    with pytest.raises(CorruptFolder, match=r"the scales of .* do not fit it"):
        read_weights(tmp_path / "short")
    save_file({key: tensor for key, tensor in tensors.items() if key != name}, tmp_path / "missing")
    with pytest.raises(CorruptFolder, match="holds int8, not floating-point weights"):
        read_weights(tmp_path / "missing")

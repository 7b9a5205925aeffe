"""The header of the weights: what is refused before a tensor is read, and what no weight may be."""

import json
import struct
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from qkv.core.errors import CorruptFolder, QkvError
from qkv.core.files import MANIFEST, write_manifest
from qkv.kernels.memory import available_memory
from qkv.models.saved.folder import WEIGHTS, SavedConfig, SavedModel, load_model, save_model
from qkv.models.saved.weights import read_header, require_model_memory
from tests.support.small import small_config, small_text

TEXT, TOKENIZERS = small_text()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    config = small_config(encoder_layers=1, decoder_layers=1)
    save_model(
        tmp_path / "model", SavedModel(config.build(TOKENIZERS), TOKENIZERS, SavedConfig(model=config, text=TEXT))
    )
    return tmp_path / "model"


def write_huge(path: Path, size: int) -> None:
    """A file with one tensor of `size` bytes, which takes no room on the disk."""
    header = json.dumps({"a": {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}}).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + size)


def test_the_header_says_what_the_library_reads(folder: Path) -> None:
    header = read_header(folder / WEIGHTS)
    tensors = load_file(folder / WEIGHTS)
    assert {name: entry["shape"] for name, entry in header.items()} == {n: list(t.shape) for n, t in tensors.items()}
    assert {entry["dtype"] for entry in header.values()} == {"F32"}


def test_a_header_with_metadata(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(2, 3)}, tmp_path / "x", metadata={"format": "pt"})
    assert list(read_header(tmp_path / "x")) == ["a"]


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 8, b"\xff" * 100, struct.pack("<Q", 2) + b"[]", struct.pack("<Q", 1 << 40)]
)
def test_what_is_no_header_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(CorruptFolder, match="is not a safetensors file"):
        read_header(tmp_path / "x")


def test_a_model_too_large_for_memory_is_refused_by_its_header(folder: Path) -> None:
    """One sentence with both numbers, before anything is read: to hash this file would take an hour."""
    available = available_memory()
    if available is None:
        pytest.skip("the system does not say how much memory is free")
    (folder / MANIFEST).unlink()
    write_manifest(folder, {"what": "model"})
    write_huge(folder / WEIGHTS, 4 << 40)
    with pytest.raises(
        QkvError, match=r"the model needs 8,192\.0 GiB of memory, and .* GiB are free; use a smaller model"
    ):
        load_model(folder)
    write_huge(folder / WEIGHTS, available // 4)
    require_model_memory(folder / WEIGHTS)


@pytest.mark.parametrize(
    "kind", [torch.int64, torch.int8, torch.uint8, torch.bool, torch.complex64, torch.float8_e4m3fn, torch.float8_e5m2]
)
def test_what_is_no_weight_is_refused_by_name_and_kind(kind: torch.dtype, folder: Path) -> None:
    tensors = load_file(folder / WEIGHTS)
    name = sorted(tensors)[0]
    save_file(tensors | {name: tensors[name].to(kind)}, folder / WEIGHTS)
    (folder / MANIFEST).unlink()
    write_manifest(folder, {"what": "model"})
    with pytest.raises(CorruptFolder, match=f"{name} holds {str(kind)[6:]}, not floating-point weights"):
        load_model(folder)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float64])
def test_weights_of_another_precision_are_read(kind: torch.dtype, folder: Path) -> None:
    tensors = {name: tensor.to(kind) for name, tensor in load_file(folder / WEIGHTS).items()}
    save_file(tensors, folder / WEIGHTS)
    (folder / MANIFEST).unlink()
    write_manifest(folder, {"what": "model"})
    assert all(weight.dtype == torch.float32 for weight in load_model(folder).model.parameters())

"""What the importers share: reading a folder of Hugging Face, and its weights in our order."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer as Library
from torch import Tensor

from qkv.config import Names
from qkv.core.errors import UsageError
from qkv.models.base import Model
from qkv.models.config import ModelConfig
from qkv.models.saved.weights import load_weights, read_tensors
from qkv.text import TextConfig, TokenizerPair
from qkv.text.extra.huggingface import HuggingFaceTokenizer

Tensors = Mapping[str, Tensor]


@dataclass(frozen=True)
class HuggingFaceFolder:
    """config.json and model.safetensors of a model, and tokenizer.json if it reads texts."""

    path: Path
    config: dict[str, Any]
    tensors: Tensors

    @classmethod
    def read(cls, path: Path) -> "HuggingFaceFolder":
        for name in ("config.json", "model.safetensors"):
            _require_file(path, name)
        try:
            config = json.loads((path / "config.json").read_text(encoding="utf-8"))
        except ValueError as error:
            raise UsageError(f"{path / 'config.json'}: is not JSON ({error}); use another copy") from error
        return cls(path, config, read_tensors(path / "model.safetensors"))

    @property
    def tokenizer(self) -> str:
        """The content of tokenizer.json."""
        _require_file(self.path, "tokenizer.json")
        return (self.path / "tokenizer.json").read_text(encoding="utf-8")

    def library(self) -> Library:
        """Its tokenizer as it is there."""
        return Library.from_str(self.tokenizer)

    def tokenizers(self, roles: Mapping[str, int | None]) -> TokenizerPair:
        """Its tokenizer, with these special ids."""
        made = HuggingFaceTokenizer(self.tokenizer, roles)
        return TokenizerPair(made, made)


def _require_file(path: Path, name: str) -> None:
    if not (path / name).is_file():
        hint = "; save it again with safe_serialization=True" if (path / "pytorch_model.bin").is_file() else ""
        raise UsageError(f"{path / name}: no such file; give a folder of save_pretrained{hint}")


@dataclass(frozen=True)
class Imported:
    """A model of another program, ready to be saved."""

    model: Model
    config: ModelConfig
    tokenizers: TokenizerPair
    text: TextConfig
    facts: Mapping[str, Any] = field(default_factory=dict)
    """More keys of its `SavedConfig`."""


importers = Names[Callable[[HuggingFaceFolder], Imported]]("imported model_type")
"""By `model_type` of config.json."""


def rows_in_our_order(table: Tensor, tokenizers: TokenizerPair) -> Tensor:
    """[V', D]: the rows of an embedding [V, D] in the order of our ids; zeros for ids that it lacks."""
    tokenizer = tokenizers.tgt
    assert isinstance(tokenizer, HuggingFaceTokenizer)
    return torch.stack([torch.zeros_like(table[0]) if i is None else table[i] for i in tokenizer.theirs])


def filled(model: Model, weights: Tensors, path: Path) -> Model:
    """The model with these weights, in evaluation mode."""
    load_weights(model, weights, path)
    return model.eval()


def without_prefix(tensors: Tensors, prefix: str) -> dict[str, Tensor]:
    """A model may be saved with or without its head; then its own tensors have this prefix or not."""
    return {name.removeprefix(prefix): tensor.float() for name, tensor in tensors.items()}

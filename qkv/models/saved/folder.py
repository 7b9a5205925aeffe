"""A saved model is a folder: weights, config, tokenizers, and a manifest with their checksums."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch

from qkv.config import ExtensibleConfig, dump_config, load_config
from qkv.core.errors import ArgumentError, CorruptFolder
from qkv.core.files import new_folder, read_manifest, verify_folder
from qkv.data.length_limit import LengthLimit
from qkv.kernels.memory import available_memory
from qkv.models.asked import require_seq2seq
from qkv.models.base import Model
from qkv.models.config import ModelConfig, Seq2SeqConfig
from qkv.models.kinds import AnyModel
from qkv.models.saved.locate import locate_model
from qkv.models.saved.weights import (
    STORAGES,
    load_weights,
    named_weights,
    read_header,
    read_weights,
    require_model_memory,
    require_shapes,
    to_storage,
    weight_names,
    write_tensors,
)
from qkv.text import TextConfig, TokenizerPair

WEIGHTS = "model.safetensors"
CONFIG = "config.yaml"
TOKENIZER = "tokenizer"


class SavedConfig(ExtensibleConfig):
    """The content of a model folder's config.yaml."""

    asks: ClassVar[bool] = True

    model: AnyModel
    """The model."""
    text: TextConfig
    """Its tokenizers."""
    longest_src: int | None = None
    """Tokens of the longest training source, END included; null: unknown."""
    median_src: int | None = None
    """Tokens of the median source, END included."""
    length_limit: LengthLimit | None = None
    """Maximum tokens of an output, fitted to the training data; null: 2 x source + 10."""
    labels: list[str] | None = None
    """Names of the classes, in the order of the model's outputs; null: it has no classes."""
    period: int | None = None
    """Values of a season of the training series, for forecasts to be compared with; null: they were no series."""
    search: dict[str, Any] | None = None
    """Settings of the search that `qkv tune` chose on dev data, the default where none are given; null: the
    decoder's default search."""

    @property
    def seq2seq(self) -> Seq2SeqConfig:
        """The model, which must be one from a source to a target."""
        return require_seq2seq(self.model, "this")


@dataclass(frozen=True)
class SavedModel:
    """A model with the tokenizers that belong to it."""

    model: Model
    tokenizers: TokenizerPair
    config: SavedConfig


def save_model(
    folder: Path | str, saved: SavedModel, about: dict[str, Any] | None = None, storage: str = "float32"
) -> None:
    """Write the folder, replacing an older one only when the new one is complete.

    With `storage` float16 or int8 the file is half or a quarter as large; weights are always loaded as float32.

    Examples:
        >>> from qkv import load_model, save_model
        >>> saved = load_model("runs/reverse")
        >>> save_model("half", saved, storage="float16")
        >>> load_model("half").config == saved.config
        True
    """
    if storage not in STORAGES:
        raise ArgumentError(f"storage: must be {', '.join(STORAGES[:-1])} or {STORAGES[-1]}, not {storage!r}")
    if not (isinstance(folder, Path | str) and isinstance(saved, SavedModel)):
        raise ArgumentError("save_model takes a folder (str or Path), then a SavedModel, as load_model gives it")
    with new_folder(Path(folder), {"what": "model", **(about or {})}) as temporary:
        write_tensors(temporary / WEIGHTS, to_storage(named_weights(saved.model), storage))
        (temporary / CONFIG).write_text(dump_config(saved.config), encoding="utf-8")
        (temporary / TOKENIZER).mkdir()
        saved.config.text.save(saved.tokenizers, temporary / TOKENIZER)


def load_model(folder: Path | str) -> SavedModel:
    """The model in `folder`, or the best one of the run there, after checking every file against the manifest.

    The model is in evaluation mode.

    Examples:
        >>> from qkv import load_model
        >>> saved = load_model("runs/reverse")
        >>> ids = saved.tokenizers.src.encode("abc")
        >>> saved.tokenizers.src.decode(ids), saved.model.training
        ('abc', False)
    """
    folder = locate_model(folder)
    read_manifest(folder)
    # Before the files are checked, which takes minutes for a large one; a damaged header is reported there.
    with suppress(CorruptFolder):
        require_model_memory(folder / WEIGHTS)
    verify_folder(folder)
    config = load_config(SavedConfig, folder / CONFIG)
    tokenizers = config.model.tokenizers(config.text.load(folder / TOKENIZER))
    require_fit(config.model, tokenizers, folder / WEIGHTS)
    model = config.model.build(tokenizers)
    load_weights(model, read_weights(folder / WEIGHTS), folder / WEIGHTS)
    return SavedModel(model.eval(), tokenizers, config)


def require_fit(config: ModelConfig, tokenizers: TokenizerPair, weights: Path) -> None:
    """Refuse a config that does not match the tensors in the file, before anything of its size is allocated."""
    require_shapes_fit(config, tokenizers, weight_shapes(weights), weights)


def weight_shapes(weights: Path) -> dict[str, list[int]]:
    """The shape of each weight in a file."""
    header = read_header(weights)
    return {name: header[name]["shape"] for name in weight_names(header)}


def require_shapes_fit(
    config: ModelConfig, tokenizers: TokenizerPair, shapes: dict[str, list[int]], weights: Path
) -> None:
    """The same of weights of these shapes, which are in the file or folder `weights`."""
    if config.own_layers > len(shapes):
        raise CorruptFolder(
            f"{weights}: has {len(shapes):,} tensors, too few for the {config.own_layers:,} layers of its config; the "
            "weights belong to another model"
        )
    with torch.device("meta"):
        model = config.build(tokenizers)
    require_shapes(model, shapes, weights)
    tables, available = sum(buffer.nbytes for buffer in model.buffers()), available_memory()
    if available is not None and tables > available:
        raise CorruptFolder(f"{weights}: the tables of its config take {tables / 2**30:,.1f} GiB; lower its sizes")

"""A model or an ensemble, given by folders or in memory; loaded on first use."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import torch

from qkv.config import load_config
from qkv.core.devices import CPU, choose_device
from qkv.core.errors import ArgumentError, CorruptFolder, UsageError
from qkv.core.files import read_manifest
from qkv.engines.fast_engines import engine_for_export
from qkv.models.asked import require_seq2seq
from qkv.models.saved.folder import CONFIG, TOKENIZER, SavedConfig, SavedModel, load_model
from qkv.models.saved.locate import locate_model
from qkv.search.hypothesis import not_a_number
from qkv.text import TokenizerPair, fingerprint, load_tokenizers
from qkv.text.given import type_name

ModelLike = Path | str | SavedModel


class ModelSet:
    """`folders` is empty if the models came from memory.

    They are used on `device`; with `auto`, a model in memory stays where it is, and one in a folder is loaded to the
    accelerator if there is one.
    """

    def __init__(self, model: ModelLike | Sequence[ModelLike], device: str = "cpu") -> None:
        self._device = device
        models = _listed(model)
        self._given = [model for model in models if isinstance(model, SavedModel)]
        self.folders = [locate_model(model) for model in models if not isinstance(model, SavedModel)]
        if bool(self._given) == bool(self.folders):
            raise UsageError("give either folders of models or models in memory, at least one")
        manifests = [read_manifest(folder) for folder in self.folders]
        self.checksums: list[str] = [manifest["checksum"] for manifest in manifests]
        """The checksum of each folder."""
        runs = [engine_for_export(str(manifest.get("what"))) for manifest in manifests]
        self.exported = runs[0].name if len(runs) == 1 and runs[0] is not None else None
        """The fast engine that this one folder was written for; None: these are models."""
        for folder, manifest, engine in zip(self.folders, manifests, runs, strict=True):
            if engine is not None and not self.exported:
                raise UsageError(
                    f"{folder}: was exported, so it cannot join an ensemble; give the model that it was made from"
                )
            if engine is None and manifest.get("what") != "model":
                raise CorruptFolder(f"{folder}: holds no model; give the folder of a model or of a run")

    def __len__(self) -> int:
        return len(self._given) or len(self.folders)

    @cached_property
    def device(self) -> torch.device:
        """Where the models are used; an export chooses no device by itself."""
        if self._device == "auto" and (self._given or self.exported):
            return self._given[0].model.device if self._given else CPU
        return choose_device(self._device)

    @cached_property
    def loaded(self) -> list[SavedModel]:
        if self.exported:
            raise UsageError(f"{self.folders[0]}: was exported; give the model that it was made from")
        for saved in self._given:
            # Checked when it is read, because not every engine would notice damage.
            if not all(bool(weight.isfinite().all()) for weight in saved.model.parameters()):
                raise not_a_number()
        found = self._given or [load_model(folder) for folder in self.folders]
        for number, one in enumerate(found):
            require_seq2seq(one.config.model, self.folders[number] if self.folders else "this")
        first, *others = [[fingerprint(side) for side in (one.tokenizers.src, one.tokenizers.tgt)] for one in found]
        for number, other in enumerate(others, start=1):
            if other != first:
                names = self.folders or [Path(f"model {number + 1}") for number in range(len(found))]
                raise UsageError(
                    f"{names[number]}: has another vocabulary than {names[0]}; the models of an ensemble share one"
                )
        if len({one.config.seq2seq.head.copies for one in found}) > 1:
            raise UsageError("an ensemble is of models that copy words of the source, or of models that do not")
        return [_on(one, self.device, own=not self._given) for one in found]

    @cached_property
    def config(self) -> SavedConfig:
        """Of the first one, which must be from a source to a target; its weights are not read for it."""
        config = self._given[0].config if self._given else load_config(SavedConfig, self.folders[0] / CONFIG)
        require_seq2seq(config.model, self.folders[0] if self.folders else "this")
        return config

    @cached_property
    def tokenizers(self) -> TokenizerPair:
        return load_tokenizers(self.folders[0] / TOKENIZER) if self.exported else self.loaded[0].tokenizers


def _on(saved: SavedModel, device: torch.device, own: bool) -> SavedModel:
    """The model on a device; one that somebody gave us is copied there, and stays where it is for its owner."""
    if own:
        saved.model.to(device)
        return saved
    there = torch.empty(0, device=device).device  # cuda is cuda:0
    return saved if saved.model.device == there else replace(saved, model=deepcopy(saved.model).to(device))


def _listed(model: object) -> list[ModelLike]:
    """One model or several as a list; rejects anything else."""
    several = isinstance(model, list | tuple)
    models = []
    for number, one in enumerate(model if isinstance(model, list | tuple) else [model]):
        if not isinstance(one, ModelLike):
            name = f"model[{number}]" if several else "model"
            raise ArgumentError(f"{name}: must be a folder (str or Path) or a SavedModel, not {type_name(one)}")
        models.append(one)
    return models

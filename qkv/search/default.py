"""The default search of a model: chosen by `qkv tune`, or by its decoder kind."""

from pathlib import Path
from typing import Any

from qkv.config import Config, load_config, validate
from qkv.config.base import WRITTEN_BY_QKV
from qkv.core.errors import UsageError
from qkv.models.asked import require_seq2seq
from qkv.models.base import Model
from qkv.models.decoders.base import DecoderConfig
from qkv.models.saved.folder import CONFIG, SavedConfig
from qkv.models.saved.locate import locate_model
from qkv.search.base import SearchConfig
from qkv.search.beam import BeamConfig
from qkv.search.greedy import GreedyConfig
from qkv.search.kinds import AnySearch
from qkv.search.refinement.search import RefineConfig


class Recommended(Config):
    """The search that a model's folder recommends."""

    search: AnySearch


def default_search(model: Path | str | SavedConfig) -> SearchConfig:
    """The one that was chosen for the model by `qkv tune`, else beam search, or refinement for a model that is not
    autoregressive; of a folder only the config is read.
    """
    config = _config_of(model)
    if config.search is None:
        return BeamConfig() if config.seq2seq.decoder.autoregressive else RefineConfig()
    where = CONFIG if isinstance(model, SavedConfig) else str(locate_model(model) / CONFIG)
    search = validate(Recommended, {"search": config.search}, where, WRITTEN_BY_QKV).search
    if problem := search_problem(search, config.seq2seq.decoder):
        raise UsageError(f"{where}: search: {problem}")
    return search


def default_settings(model: Path | str | SavedConfig) -> dict[str, Any]:
    """The same as keys and values; the others have their defaults."""
    config, search = _config_of(model), default_search(model)
    return config.search or {"kind": type(search).model_fields["kind"].default}


def _config_of(model: Path | str | SavedConfig) -> SavedConfig:
    if isinstance(model, SavedConfig):
        return model
    config = load_config(SavedConfig, locate_model(model) / CONFIG)
    require_seq2seq(config.model, model)
    return config


def search_problem(search: SearchConfig, decoder: DecoderConfig) -> str | None:
    """Why a model with this decoder cannot be decoded by this search alone; None: it can."""
    kind = type(search).model_fields["kind"].default
    if decoder.autoregressive == search.parallel:
        wanted = "greedy, beam, sample or mbr" if decoder.autoregressive else "refine"
        return f"the kind {kind} is not for model.decoder {decoder.kind}; use {wanted}"
    return search.missing


def quick_search(model: Model, passes: int | None = None) -> SearchConfig:
    """The fastest search; refinement takes so many passes, None: the default of the model's kind."""
    return RefineConfig(passes=passes) if model.inference().steps is None else GreedyConfig()

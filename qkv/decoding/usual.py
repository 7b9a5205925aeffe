"""Which search a model is decoded by if nobody says: its decoder decides."""

from pathlib import Path

from qkv.config import load_config
from qkv.decoding.beam import BeamConfig
from qkv.decoding.greedy import GreedyConfig
from qkv.decoding.refine import RefineConfig
from qkv.decoding.search import SearchConfig
from qkv.models.decoders.base import DecoderConfig
from qkv.models.folder import CONFIG, SavedConfig
from qkv.models.locate import locate_model
from qkv.models.parallel import ParallelModel
from qkv.models.seq2seq import Seq2Seq


def usual_search(model: Path | str | SavedConfig) -> SearchConfig:
    """Beam search, or refinement for a model that is not autoregressive; of a folder only the config is read."""
    config = model if isinstance(model, SavedConfig) else load_config(SavedConfig, locate_model(model) / CONFIG)
    return BeamConfig() if config.model.decoder.autoregressive else RefineConfig()


def search_problem(search: SearchConfig, decoder: DecoderConfig) -> str | None:
    """Why a model with this decoder cannot be decoded so while it is trained; None: it can."""
    kind = type(search).model_fields["kind"].default
    if decoder.autoregressive == isinstance(search, RefineConfig):
        wanted = "greedy, beam, sample or mbr" if decoder.autoregressive else "refine"
        return f"the kind {kind} is not for model.decoder {decoder.kind}; use {wanted}"
    if isinstance(search, RefineConfig) and search.rescore is not None:
        return "another model cannot rescore here; leave out rescore"
    return None


def quick_search(model: Seq2Seq) -> SearchConfig:
    """The one that takes the least time, for a look at a model in training."""
    return RefineConfig() if isinstance(model, ParallelModel) else GreedyConfig()

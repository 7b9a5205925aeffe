"""What can be set by `key.sub=value` when a model is used."""

from collections.abc import Sequence

from pydantic import Field

from qkv.config import Config, validate
from qkv.config.overrides import apply_overrides
from qkv.decoding.beam import BeamConfig
from qkv.decoding.search import AnySearch
from qkv.decoding.translator import MAX_SRC_TOKENS


class TranslationConfig(Config):
    """How texts are translated."""

    search: AnySearch = BeamConfig()
    """How an output is found."""
    batch_tokens: int | None = Field(default=None, ge=1)
    """The most source tokens of a batch, padding included, counted once for each hypothesis; null: what the engine
    likes."""
    max_src_tokens: int | None = Field(default=MAX_SRC_TOKENS, ge=2)
    """A longer source, END included, is cut; null: only what the model cannot read is cut."""


def translation_config(overrides: Sequence[str]) -> TranslationConfig:
    """The defaults with the overrides laid over them; raises UsageError."""
    data = apply_overrides({"search": {"kind": "beam"}}, overrides)
    return validate(TranslationConfig, data, "command line")

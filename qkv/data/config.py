"""Which pairs to learn from, which to leave out, and how large a batch is."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from qkv.config.base import Config
from qkv.data.lines import Policy
from qkv.data.readers import AnyCorpus
from qkv.data.store import PairLimits


def _as_list(value: Any) -> Any:
    """A single corpus is accepted where a list is expected."""
    return value if isinstance(value, (list, tuple)) else [value]


class DataConfig(Config):
    """The corpora and what makes a pair usable."""

    root: Path = Path(".")
    """Folder that the paths of the corpora start from."""
    train: Annotated[tuple[AnyCorpus, ...], BeforeValidator(_as_list), Field(min_length=1)]
    """Pairs to learn from: one corpus or a list of them."""
    dev: AnyCorpus | None = None
    """Pairs to choose the best model by."""
    test: AnyCorpus | None = None
    """Pairs for the final score; training never reads them, `qkv evaluate RUN` measures on them."""
    holdout: int | None = Field(default=None, ge=1)
    """Without `dev`: this many pairs of `train` become it. Pairs with the same source stay together, so no source
    is in both; which ones is decided by a hash of the source, not by the seed."""
    invalid_utf8: Policy = "error"
    """A text that is not valid UTF-8: `error` stops, `skip` drops the pair, `replace` puts U+FFFD in."""
    max_src_tokens: int = Field(default=256, ge=2)
    """Pairs with more source tokens, the end token included, are dropped and counted."""
    max_tgt_tokens: int = Field(default=256, ge=2)
    """Pairs with more target tokens, the end token included, are dropped and counted."""

    @model_validator(mode="after")
    def _one_dev(self) -> "DataConfig":
        if self.dev is not None and self.holdout is not None:
            raise ValueError("give dev or holdout, not both")
        return self

    @property
    def limits(self) -> PairLimits:
        return PairLimits(max_src=self.max_src_tokens, max_tgt=self.max_tgt_tokens)


class BatchConfig(Config):
    """How large a batch is."""

    tokens: int = Field(default=4096, ge=2)
    """At most this many positions a side, padding included: rows x max(source length, target length)."""
    pairs: int | None = Field(default=None, ge=1)
    """At most this many pairs (null: no limit)."""

"""Which data to learn from, which to leave out, and how large a batch is."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from qkv.config.base import Config, Kinds
from qkv.data.lines import Policy
from qkv.data.readers import AnyCorpus
from qkv.data.store import PairLimits


def as_list(value: Any) -> Any:
    """A single item is accepted where a list is expected."""
    return value if isinstance(value, (list, tuple)) else [value]


class DataConfig(Config):
    """The data: what is read. A kind of data is a config here and a `DataTask` of the same kind (`data.tasks`)."""

    tokenizer_sides: ClassVar[tuple[frozenset[str], ...]] = (frozenset({"shared"}), frozenset({"src", "tgt"}))
    """Which keys of `text` it needs; one of these."""

    kind: str
    root: Path = Path(".")
    """Folder that the paths of the corpora start from."""
    dev: Config | None = None
    """Examples to choose the best model by."""
    holdout: int | None = Field(default=None, ge=1)
    """Without `dev`: this many examples of `train` become it."""

    @model_validator(mode="after")
    def _one_dev(self) -> Self:
        if self.dev is not None and self.holdout is not None:
            raise ValueError("give dev or holdout, not both")
        return self

    @property
    def has_dev(self) -> bool:
        """Whether there is something to choose the best model by."""
        return self.dev is not None or self.holdout is not None

    @property
    def packs(self) -> bool:
        """Whether a row of a batch holds several examples."""
        return False

    @property
    def longest(self) -> tuple[int, int]:
        """The most source and target tokens of an example, END included; 0: there are none."""
        return 0, 0

    def text_problem(self, given: Collection[str]) -> str | None:
        """Why these keys of `text` do not go with it; None: they do."""
        if set(given) in self.tokenizer_sides:
            return None
        wanted = ", or ".join(" and ".join(sorted(sides)) or "nothing" for sides in self.tokenizer_sides)
        return f"text: data.kind {self.kind} takes {wanted}; {' and '.join(sorted(given)) or 'nothing'} was given"


data_kinds = Kinds[DataConfig]("data", default="pairs")


@data_kinds.register
class PairsConfig(DataConfig):
    """The corpora and what makes a pair usable."""

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"train": {"kind": "tsv", "path": "train.tsv"}}

    kind: Literal["pairs"] = "pairs"
    train: Annotated[tuple[AnyCorpus, ...], BeforeValidator(as_list), Field(min_length=1)]
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

    @property
    def longest(self) -> tuple[int, int]:
        return self.max_src_tokens, self.max_tgt_tokens

    @property
    def limits(self) -> PairLimits:
        return PairLimits(max_src=self.max_src_tokens, max_tgt=self.max_tgt_tokens)


class CurriculumConfig(Config):
    """Short pairs first: an epoch has the pairs up to a length that grows from epoch to epoch."""

    start: int = Field(ge=2)
    """The longest pair of the first epoch, in tokens of its longer side, the end token included."""
    growth: int = Field(default=1, ge=1)
    """By how many tokens it grows with each epoch."""

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"start": 4}

    def longest(self, epoch: int) -> int:
        """The longest pair of an epoch, counted from 0."""
        return self.start + self.growth * epoch


class BatchConfig(Config):
    """How large a batch is."""

    tokens: int = Field(default=4096, ge=2)
    """At most this many positions a side, padding included: rows x max(source length, target length)."""
    pairs: int | None = Field(default=None, ge=1)
    """At most this many pairs, texts (packed: rows), images or windows (null: no limit)."""
    curriculum: CurriculumConfig | None = None
    """Short pairs first (null: all pairs from the first epoch on)."""

    @property
    def single_tokens(self) -> int:
        """At most this many examples that count as one token each, such as images."""
        return min(self.tokens, self.pairs or self.tokens)

    @property
    def of_everything(self) -> "BatchConfig":
        """The same for data that has to be read as a whole, such as dev data."""
        return self.model_copy(update={"curriculum": None})

"""The data-task seam: all that training, validation and `qkv data check` know of the data.

A kind of data is a config (`DataConfig`, registered in `data_kinds`) and a task (`DataTask`, registered in `data_tasks`
under the same name). The task reads the parts that the config names, prepares each as a store on disk, and makes
batches of a store by their number, so that a run resumes in the middle of an epoch.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence, Sized
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

from torch import Tensor

from qkv.config import Names
from qkv.core.errors import UsageError
from qkv.data.build import CountProgress
from qkv.data.config import BatchConfig, DataConfig
from qkv.data.overlap import Overlap
from qkv.text.folder import TokenizerPair


class TrainingBatch(Protocol):
    """What the trainer knows of a batch; a model and its objective know the rest."""

    @property
    def examples(self) -> list[int]:
        """Which examples of the store these are, for diagnosis; as many as there are rows."""

    @property
    def size(self) -> str:
        """For a message, such as `12 pairs up to 40 tokens long`."""

    @property
    def smaller_examples(self) -> str:
        """What to change for smaller examples, for a message, such as `lower data.max_tokens`."""

    def __len__(self) -> int: ...

    def to(self, device: Any) -> Self:
        """The same batch on `device`."""

    def split(self) -> tuple[Self, Self]:
        """Two batches of half the rows, for when one does not fit in memory."""


class ReportLines(Protocol):
    """What became of the examples that were read."""

    def lines(self) -> list[str]:
        """For people."""


class Store(Protocol):
    """A prepared part (train, dev or test) on disk, open for reading."""

    @property
    def folder(self) -> Path: ...

    @property
    def fingerprint(self) -> str:
        """A hash of the content, which a resumed run checks."""

    @property
    def report(self) -> ReportLines: ...

    @property
    def num_tokens(self) -> int:
        """How much there is to learn from: tokens, or whatever the model reads, of all sides."""

    @property
    def num_tgt_tokens(self) -> int:
        """Target tokens of all examples."""

    def __len__(self) -> int: ...


class Stream(Protocol):
    """The batches of a store: any batch of any epoch by its number."""

    unit: str
    """What its examples are called in messages: pairs."""
    batch_tokens: int
    """The size of a batch, for decoding."""

    @property
    def store(self) -> Store: ...

    def plan(self, epoch: int) -> Sized:
        """The batches of an epoch, a pure function of the data, the seed and `epoch`."""

    def batch(self, epoch: int, index: int, rank: int = 0, world: int = 1) -> TrainingBatch:
        """Batch `index` of `epoch`, or the rows of it that belong to `rank`; those may be none."""

    def names(self, examples: Sequence[int]) -> list[str]:
        """What the examples say, for diagnosis."""


class TextPart(Protocol):
    """A part of the data before it is prepared."""

    def texts(self, side: Any) -> Any:
        """The texts of the side `src` or `tgt`, to train a tokenizer on."""


class CheckReport(Protocol):
    """What `qkv data check` prints."""

    @property
    def overlaps(self) -> Mapping[str, Overlap]:
        """By the name of the part that is compared with train."""

    @property
    def advice(self) -> list[str]:
        """One sentence each."""

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""

    def render(self) -> str:
        """For people."""

    def with_advice(self, sentences: list[str]) -> "CheckReport":
        """The same with advice, one sentence each."""


P = TypeVar("P", bound=TextPart)
S = TypeVar("S", bound=Store)


class DataTask(ABC, Generic[P, S]):
    """Reads, prepares and batches one kind of data, from its config; `P` are its parts, `S` its stores."""

    unit: str
    """What its examples are called in messages."""

    @abstractmethod
    def parts(self, progress: CountProgress | None = None, with_test: bool = False) -> dict[str, P]:
        """The parts that there are, by name (`train`, `dev`, `test`), after checking that every file is there."""

    @abstractmethod
    def prepare(
        self, parts: Mapping[str, P], tokenizers: TokenizerPair, folder: Path, progress: CountProgress | None = None
    ) -> dict[str, S]:
        """The stores of the parts, each in the subfolder of its name, built where the inputs have changed."""

    @abstractmethod
    def open(self, folder: Path) -> S:
        """The store that `prepare` wrote; raises CorruptFolder if it is missing or damaged."""

    @abstractmethod
    def stream(
        self, store: S, tokenizers: TokenizerPair, batch: BatchConfig, seed: int, sampling: bool = False
    ) -> Stream:
        """Its batches; `sampling` segments every text anew each epoch, as the tokenizers are configured."""

    @abstractmethod
    def check(
        self,
        stores: Mapping[str, S],
        tokenizers: TokenizerPair,
        batch: BatchConfig,
        seed: int = 0,
        progress: CountProgress = lambda done, total: None,
    ) -> CheckReport:
        """Look at prepared data, for `qkv data check`."""

    @abstractmethod
    def batches(self, train: S, batch: BatchConfig) -> float:
        """The approximate number of batches an epoch."""

    def facts(self, train: S) -> dict[str, Any]:
        """Keys of `SavedConfig` that a model learns from its training data."""
        return {}

    def overlap(self, part: S, train: S, progress: CountProgress = lambda done, total: None) -> Overlap | None:
        """What a part shares with train; None: there is no such check."""
        return None

    def frequencies(self, train: S, tokenizers: TokenizerPair) -> Tensor:
        """[V]: how often each token is predicted, for the smoothing `unigram`."""
        raise UsageError(f"objective.smoothing: counts of tokens are not taken of {self.unit}; use others or none")


data_tasks = Names[Callable[[Any], DataTask[Any, Any]]]("data task")
"""By kind of data: its config -> its task."""


def task_of(data: DataConfig) -> DataTask[Any, Any]:
    """The task of a config."""
    return data_tasks[data.kind](data)

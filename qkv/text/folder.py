"""The tokenizers of the two sides: their configuration, and the folder that they are saved in.

The folder holds `text.json`, the configuration they were trained with, and `shared/` with the files of one
tokenizer for both sides, or `src/` and `tgt/` with those of one for each side.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from pydantic import model_validator

from qkv.config.base import Config
from qkv.core.errors import ConfigError, CorruptFolder
from qkv.text.character import CharacterTokenizer
from qkv.text.kinds import AnyTokenizer
from qkv.text.normalize import NormalizeConfig
from qkv.text.tokenizer import OutputTokenizer, Tokenizer, TokenizerConfig, fingerprint, read_file

CONFIG = "text.json"


@dataclass(frozen=True)
class TokenizerPair:
    """The tokenizers of source and target; one object twice when they share it."""

    src: Tokenizer
    tgt: Tokenizer

    @property
    def shared(self) -> bool:
        return self.src is self.tgt

    def linked(self, src: str, tgt: str, src_ids: list[int], tgt_ids: list[int]) -> tuple[list[int], list[int]]:
        """The ids of a pair of texts as a model reads them: these, but see `CopyingTokenizers`."""
        return src_ids, tgt_ids

    def output_of(self, src: str, src_ids: Sequence[int]) -> OutputTokenizer:
        """What reads and writes the outputs of one source, which has these ids: the tokenizer of the target."""
        return self.tgt

    def source_tokens(self, src: str, src_ids: Sequence[int]) -> list[str]:
        """The strings of a source's ids; ids beyond its vocabulary are those that its outputs may copy."""
        own = self.output_of(src, src_ids)
        return [(self.src if i < len(self.src) else own).tokens([i])[0] for i in src_ids]

    def speaks_as(self, other: "TokenizerPair") -> bool:
        """Whether both have one vocabulary on each side, so that ids mean the same."""
        sides = ((self.src, other.src), (self.tgt, other.tgt))
        return all(fingerprint(own) == fingerprint(theirs) for own, theirs in sides)


class TextConfig(Config):
    """One tokenizer for both sides (`shared`), or one for each (`src` and `tgt`); `tgt` alone for a source that is no
    text, and none where nothing is."""

    shared: AnyTokenizer | None = None
    """The tokenizer of both sides, learned from the texts of both."""
    src: AnyTokenizer | None = None
    """The tokenizer of the source side."""
    tgt: AnyTokenizer | None = None
    """The tokenizer of the target side."""

    @model_validator(mode="after")
    def _one_or_two(self) -> "TextConfig":
        if self.given not in (["shared"], ["src", "tgt"], ["tgt"], []):
            raise ValueError(f"give either shared, or both src and tgt; {' and '.join(self.given)} was given")
        return self

    @property
    def given(self) -> list[str]:
        """The keys that are given."""
        return list(self._sides())

    @property
    def samples(self) -> bool:
        """Whether training texts are segmented differently in each epoch."""
        return any(config.samples for config in self._sides().values())

    def _sides(self) -> dict[str, TokenizerConfig]:
        sides = {"shared": self.shared, "src": self.src, "tgt": self.tgt}
        return {name: config for name, config in sides.items() if config is not None}

    def train(self, src_texts: Callable[[], Iterable[str]], tgt_texts: Callable[[], Iterable[str]]) -> TokenizerPair:
        """Learn the tokenizer(s); each side's texts are asked for once."""
        if self.shared is not None:
            return _paired({"shared": self.shared.train(chain(src_texts(), tgt_texts()))})
        texts = {"src": src_texts, "tgt": tgt_texts}
        return _paired({name: config.train(texts[name]()) for name, config in self._sides().items()})

    def save(self, pair: TokenizerPair, folder: Path) -> None:
        """Write the pair and this configuration into `folder`, which exists."""
        for name in self._sides():
            (folder / name).mkdir(exist_ok=True)
            (pair.tgt if name == "tgt" else pair.src).save(folder / name)
        (folder / CONFIG).write_text(self.model_dump_json(indent=2, exclude_none=True) + "\n", encoding="utf-8")

    def load(self, folder: Path) -> TokenizerPair:
        """The pair that `save` wrote, its pieces used as this configuration says."""
        return _paired({name: config.load(folder / name) for name, config in self._sides().items()})


def _paired(sides: Mapping[str, Tokenizer]) -> TokenizerPair:
    """A tokenizer that stands alone is that of both sides; with none, there is a vocabulary of special ids alone."""
    if "src" in sides:
        return TokenizerPair(sides["src"], sides["tgt"])
    only = next(iter(sides.values()), None) or CharacterTokenizer([], NormalizeConfig())
    return TokenizerPair(only, only)


def load_tokenizers(folder: Path) -> TokenizerPair:
    """The pair in `folder` with the configuration that was saved beside it."""
    path = folder / CONFIG
    try:
        config = TextConfig.model_validate_json(read_file(path))
    except ConfigError as error:
        raise CorruptFolder(f"{path}: is not a configuration of tokenizers; use another copy of the folder") from error
    return config.load(folder)

"""The normal form of a text: what a tokenizer encodes, and what decoding returns."""

import re
import unicodedata
from collections.abc import Sequence
from typing import Literal

from qkv.config.base import Config
from qkv.core.errors import DataError

UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
"""Thai, Lao, Burmese, Khmer, Japanese, Chinese: there are no spaces between words."""


def mostly_unspaced(texts: Sequence[str]) -> bool:
    """Whether most of the texts are in a script without spaces between words."""
    return 2 * sum(bool(UNSPACED.search(text)) for text in texts) > len(texts)


class NormalizeConfig(Config):
    """How texts are normalised before tokenization."""

    unicode: Literal["none", "NFC", "NFKC"] = "NFC"
    """Unicode normal form. NFC makes `é` one character however it was typed; NFKC also folds ligatures and full-width
    letters, which cannot be undone."""
    lowercase: bool = False
    """Turn the text to lower case."""
    whitespace: Literal["collapse", "keep"] = "collapse"
    """`collapse` makes every run of Unicode white space one space and strips both ends; `keep` changes nothing."""


def normalize(text: str, config: NormalizeConfig) -> str:
    """The normal form of `text`; normalising twice changes nothing more. Refuses lone surrogates."""
    if not text.isascii():
        _refuse_surrogates(text)
        text = _unicode_form(text, config)
    if config.lowercase:
        # Lower-casing may decompose letters, so the normal form is applied again.
        text = _unicode_form(text.lower(), config)
    return " ".join(text.split()) if config.whitespace == "collapse" else text


def _unicode_form(text: str, config: NormalizeConfig) -> str:
    return text if config.unicode == "none" else unicodedata.normalize(config.unicode, text)


def _refuse_surrogates(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"{text[:40]!r}: character {error.start + 1} is a lone surrogate (U+{ord(text[error.start]):04X}), "
            "which is half a character; read the text as UTF-8 or remove it"
        ) from error

"""The settings of a server, from a file or from the command line."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from qkv.config import load_config, with_overrides
from qkv.core.errors import UsageError
from qkv.serving.config import ServeConfig
from qkv.serving.languages import PAIR


def serve_config(words: Sequence[str], file: Path | None = None) -> ServeConfig:
    """The config of `qkv serve`: models and `key=value` settings, or settings on top of a file's."""
    overrides = [word for word in words if _is_setting(word)]
    models = [_model(word) for word in words if not _is_setting(word)]
    if bool(models) == (file is not None):
        raise UsageError("give the models to serve, such as es-en, or a file with --config")
    if file is not None:
        return load_config(ServeConfig, file, overrides)
    return with_overrides(ServeConfig, {"models": models}, overrides, "command line")


def _is_setting(word: str) -> bool:
    key, sign, _ = word.partition("=")
    return bool(sign) and key.split(".")[0] in ServeConfig.model_fields


def _model(word: str) -> dict[str, Any]:
    """FOLDER or FOLDER=de-en."""
    path, sign, languages = word.rpartition("=")
    if not sign:
        return {"path": word}
    pair = PAIR.fullmatch(languages)
    if pair is None:
        raise UsageError(f"{word}: is not a setting, and what follows = is not a pair of language codes such as de-en")
    return {"path": path, "source": pair[1], "target": pair[2]}

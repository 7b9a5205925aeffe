"""Reads and writes YAML files: every failure names `file:line`, and what is written reads back equal."""

import difflib
import io
import re
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.representer import SafeRepresenter

from qkv.config.parse import Document, YamlProblem, parse_yaml, scalar
from qkv.core.errors import UsageError
from qkv.core.reading import open_file

MAX_BYTES = 256 << 10

_SIMPLE = re.compile(r"[A-Za-z_./](?:[\w ./+-]*[\w./+-])?|[0-9]+(?:\.[0-9]+)?[kKMG]?[utemsh]")  # words, paths, periods
_OLD_WORDS = {"y", "n", "yes", "no", "on", "off"}  # booleans in YAML 1.1


def read_yaml(path: Path) -> Document:
    """The document in a file; every failure is a UsageError `file:line: what; how to fix it`."""
    try:
        return parse_yaml(_read_text(path))
    except YamlProblem as problem:
        line = f":{problem.line}" if problem.line else ""
        raise UsageError(f"{path}{line}: {problem}") from None


def _read_text(path: Path) -> str:
    try:
        with open_file(path) as file:
            raw = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file{_sibling(path)}") from None
    except IsADirectoryError:
        raise UsageError(f"{path}: is a folder; name a YAML file") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{path}: cannot be read ({reason})") from None
    if len(raw) > MAX_BYTES:
        raise UsageError(f"{path}: is larger than {MAX_BYTES >> 10} KiB; a configuration is far smaller")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path}:{line}: is not UTF-8 text; save the file as UTF-8") from None


def _sibling(path: Path) -> str:
    """What the user may have meant, among the YAML files in the same folder."""
    names = [p.name for p in path.parent.glob("*.y*ml")] if path.parent.is_dir() else []
    near = difflib.get_close_matches(path.name, names, 1)
    return f'; did you mean "{path.parent / near[0]}"?' if near else ""


class _Representer(SafeRepresenter):
    """Text without quotes only where every YAML reader, old ones too, sees the same text."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_str(self, data: str) -> Any:
        simple = _SIMPLE.fullmatch(data) and data.lower() not in _OLD_WORDS and isinstance(scalar(data), str)
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=None if simple else '"')


_Representer.add_representer(str, _Representer.represent_str)


def write_yaml(data: Any) -> str:
    """Plain data as YAML text that `parse_yaml` reads back equal, keys in their order."""
    yaml = YAML(typ="safe", pure=True)
    yaml.Representer = _Representer
    yaml.default_flow_style = False
    yaml.width = 1 << 20  # a folded line would be the same value, but harder to read and to compare
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # ruamel declares it as None
    text = io.StringIO()
    yaml.dump(data, text)
    return text.getvalue().removesuffix("...\n")

"""YAML 1.2 text to plain data with line numbers.

Built from the parser's events, not by a loader that constructs objects: so nothing in a file can name a
Python class, `no` stays text, `1e-4` is a number, a key given twice is an error, and a file of a few
lines cannot grow into gigabytes through aliases.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)
from ruamel.yaml.reader import ReaderError

Loc = tuple[str | int, ...]
Scalar = str | int | float | bool | None

MAX_DEPTH = 64
MAX_NODES = 4_000

_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(["", "~", "null", "Null", "NULL"]),
    **dict.fromkeys(["true", "True", "TRUE"], True),
    **dict.fromkeys(["false", "False", "FALSE"], False),
    **dict.fromkeys([".nan", ".NaN", ".NAN"], float("nan")),
    **{sign + word: float(sign + "inf") for sign in ["", "+", "-"] for word in [".inf", ".Inf", ".INF"]},
}
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")

_ADVICE = {
    "mapping values are not allowed": 'a second ": " on this line, or wrong indentation; put the text in quotes',
    r"found character '\t'": "a tab cannot indent; use spaces",
    "that cannot start any token": "the value starts with a reserved character; put it in quotes",
    "found unexpected end of stream": "a quote is opened and not closed; close it",
    "<stream end>": "a bracket is opened and not closed; close it",
    "undefined tag handle": "tags are not allowed; remove the word that starts with !",
}


class YamlProblem(ValueError):
    """Invalid text: `str()` says what is wrong and how to fix it, `line` counts from 1."""

    def __init__(self, what: str, line: int | None) -> None:
        super().__init__(what)
        self.line = line


@dataclass(frozen=True)
class _Node:
    """A value with its line. `size` counts the values in it with aliases written out; `depth` its levels."""

    content: Any  # a scalar, list[_Node], or dict[str, tuple[line of the key, _Node]]
    line: int
    size: int
    depth: int

    def plain(self) -> Any:
        if isinstance(self.content, dict):
            return {key: node.plain() for key, (_, node) in self.content.items()}
        if isinstance(self.content, list):
            return [node.plain() for node in self.content]
        return self.content


class Document:
    """`data`: dicts (keys are text), lists and scalars; `line_of(("model", "layers", 0))`: where that is written."""

    def __init__(self, root: _Node) -> None:
        self._root = root
        self.data: Any = root.plain()

    def line_of(self, loc: Loc) -> int | None:
        """The line of a key or list item, from 1; None when the file has no such place."""
        node, line = self._root, self._root.line
        for part in loc:
            content = node.content
            if isinstance(content, dict) and part in content:
                line, node = content[part]
            elif isinstance(content, list) and isinstance(part, int) and 0 <= part < len(content):
                node = content[part]
                line = node.line
            else:
                return None
        return line


def scalar(text: str) -> Scalar:
    """What an unquoted word means in the core schema of YAML 1.2."""
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
    if _FLOAT.fullmatch(text):
        return float(text)
    return text


class _Builder:
    """Builds nodes from events and counts them as they come, so that a bad file is rejected early."""

    def __init__(self, events: Iterator[Event]) -> None:
        self._events = events
        self._anchors: dict[str, _Node | None] = {}  # None while the node is still being read
        self._count = 0

    def document(self) -> _Node | None:
        next(self._events)  # the start of the stream
        start = next(self._events)
        if isinstance(start, StreamEndEvent):
            return None
        if isinstance(start, DocumentStartEvent) and start.version not in (None, (1, 2)):
            _refuse(start, "only YAML 1.2 is read; remove the %YAML line")
        root = self._node(next(self._events), 1)
        next(self._events)  # the end of the document
        after = next(self._events)
        if not isinstance(after, StreamEndEvent):
            _refuse(after, "a second document begins; keep one document in a file")
        return root

    def _node(self, event: Event, depth: int) -> _Node:
        if isinstance(event, AliasEvent):
            return self._alias(event, depth)
        assert isinstance(event, ScalarEvent | SequenceStartEvent | MappingStartEvent)
        if event.tag is not None:
            _refuse(event, f"tags are not allowed; remove {event.tag.replace('tag:yaml.org,2002:', '!!')}")
        before = self._count
        self._add(event, 1, depth)
        if event.anchor:
            self._anchors[event.anchor] = None
        content, below = self._content(event, depth)
        node = _Node(content, _line(event), self._count - before, below + 1)
        if event.anchor:
            self._anchors[event.anchor] = node
        return node

    def _content(self, event: Event, depth: int) -> tuple[Any, int]:
        """The content of a node and how many levels are below it."""
        if isinstance(event, MappingStartEvent):
            return self._mapping(depth)
        if isinstance(event, SequenceStartEvent):
            return self._sequence(depth)
        return self._scalar(event), 0

    def _add(self, event: Event, nodes: int, depth: int) -> None:
        self._count += nodes
        if self._count > MAX_NODES:
            _refuse(event, f"more than {MAX_NODES} values, aliases written out; a configuration is far smaller")
        if depth > MAX_DEPTH:
            _refuse(event, f"nested deeper than {MAX_DEPTH} levels; a configuration is far flatter")

    def _alias(self, event: AliasEvent, depth: int) -> _Node:
        if event.anchor not in self._anchors:
            _refuse(event, f"*{event.anchor} has no &{event.anchor} before it; put text that starts with * in quotes")
        node = self._anchors[event.anchor]
        if node is None:
            _refuse(event, f"*{event.anchor} contains itself; write the value out")
        self._add(event, node.size, depth + node.depth - 1)
        return node

    def _sequence(self, depth: int) -> tuple[list[_Node], int]:
        items: list[_Node] = []
        while not isinstance(event := next(self._events), SequenceEndEvent):
            items.append(self._node(event, depth + 1))
        return items, max((item.depth for item in items), default=0)

    def _mapping(self, depth: int) -> tuple[dict[str, tuple[int, _Node]], int]:
        items: dict[str, tuple[int, _Node]] = {}
        while not isinstance(event := next(self._events), MappingEndEvent):
            key = self._key(event)
            if key in items:
                _refuse(event, f'key "{key}" is given twice (first in line {items[key][0]}); remove one')
            items[key] = _line(event), self._node(next(self._events), depth + 1)
        return items, max((node.depth for _, node in items.values()), default=0)

    def _key(self, event: Event) -> str:
        """Keys are text as written: `no:` and `1:` are the keys "no" and "1"."""
        if not isinstance(event, ScalarEvent) or event.tag is not None or event.anchor:
            _refuse(event, "a key must be a plain word; write key: value")
        if event.style is None and event.value in ("", "<<"):
            what = "merging with << is not part of YAML 1.2; write the keys out"
            _refuse(event, what if event.value else 'there is nothing before the ":"; write key: value')
        return _text(event)

    def _scalar(self, event: Event) -> Scalar:
        assert isinstance(event, ScalarEvent)
        if event.style is not None:
            return _text(event)
        try:
            return scalar(event.value)
        except ValueError:
            _refuse(event, "the number has too many digits; write a shorter one")


def _text(event: ScalarEvent) -> str:
    """What quotes or a key hold; an escape such as \\ud800 may spell half a character, which no file can hold."""
    text = str(event.value)
    try:
        text.encode()
    except UnicodeEncodeError:
        _refuse(event, "an escape spells half a character (a lone surrogate); write the whole character")
    return text


def _line(event: Event) -> int:
    return int(event.start_mark.line) + 1


def _refuse(event: Event, what: str) -> NoReturn:
    raise YamlProblem(what, _line(event))


def parse_yaml(text: str) -> Document:
    """One YAML 1.2 document; raises YamlProblem."""
    try:
        root = _Builder(iter(YAML(typ="safe", pure=True).parse(text))).document()
    except MarkedYAMLError as error:
        problem = str(error.problem)
        advice = [words for found, words in _ADVICE.items() if found in problem]
        mark = error.problem_mark or error.context_mark
        what = advice[0] if advice else f"not YAML: {problem}; check quotes, brackets and indentation"
        raise YamlProblem(what, mark.line + 1 if mark else None) from None
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise YamlProblem(f"control character {error.character!r}; this is not a text file", line) from None
    except (YAMLError, ValueError) as error:
        if isinstance(error, YamlProblem):
            raise
        raise YamlProblem(f"not YAML: {' '.join(str(error).split())}", None) from None
    if root is None:
        raise YamlProblem("nothing in it; write at least one key: value", None)
    return Document(root)

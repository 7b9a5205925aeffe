"""Files spoilt on purpose: bytes changed at random, and JSON whose values are replaced, removed or added."""

import copy
import json
import random
from collections.abc import Callable
from typing import Any

SHARDING = "DCP_SHARDING_INFO"
"""The key under which torch.distributed.checkpoint keeps it in the header."""
WORDS = [
    *(b"\0", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\r", b"\n", b"\t", b'"', b"'", b",", b":", b"{", b"}", b"["),
    *(b"]", b"-1", b"0", b"99999999999999999999", b"1e999", b"NaN", b"Infinity", b"null", b"true", b"[" * 300, b"&a "),
    *(
        b"*a",
        b"!!str ",
        b"\\ud800",
        b"\\u0000",
        b"../",
        b"/etc/passwd",
        b"# ",
        b"\x1f\x8b",
        b"\x28\xb5\x2f\xfd",
        b"PAR1",
    ),
]
"""What means something in one of the formats."""


def _nested(depth: int, leaf: Any) -> Any:
    for _ in range(depth):
        leaf = [leaf]
    return leaf


ODD = [
    *(None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**400, 0.5, -0.0, 1e300, 1e-320),
    *(float("nan"), float("inf"), -float("inf"), "", "a", "\0", "\ud800", "\u2028", "x" * 5000, "../x", "/", "1", "no"),
    *([], {}, [None], [[]], {"a": 1}, {"": {}}, {"kind": "x"}, {"kind": None}, [1, "a", None], _nested(150, 1)),
    *(_nested(250, "deep"), {"kind": ["beam"]}, "F8_E4M3", "I64", "BOOL", "C64", "F64", [2**40, 2**40], [0], [-1, 4]),
]


def spoilt_bytes(content: bytes, chance: random.Random) -> bytes:
    """One to four changes: a bit, a piece removed, doubled or moved, a word put in, or the end cut off."""
    for _ in range(chance.choice((1, 1, 2, 4))):
        at, size = chance.randrange(len(content) + 1), chance.choice((1, 1, 2, 8, 64))
        piece = content[at : at + size]
        content = chance.choice(
            (
                lambda c=content, a=at: (
                    c[:a] + bytes([(c[a] if a < len(c) else 0) ^ 1 << chance.randrange(8)]) + c[a + 1 :]
                ),
                lambda c=content, a=at, s=size: c[:a] + c[a + s :],
                lambda c=content, a=at, p=piece: c[:a] + p + c[a:],
                lambda c=content, a=at: c[:a] + chance.choice(WORDS) + c[a:],
                lambda c=content, a=at, s=size: c[:a] + chance.choice(WORDS) + c[a + s :],
                lambda c=content, a=at, s=size: c[:a] + chance.randbytes(s) + c[a + s :],
                lambda c=content, a=at: c[:a],
            )
        )()
    return content


def spoilt_data(data: Any, chance: random.Random) -> Any:
    """A copy of plain data with one to three values replaced, removed, added or exchanged."""
    data = copy.deepcopy(data)
    for _ in range(chance.choice((1, 1, 2, 3))):
        places = list(_places(data))
        if not places:
            return chance.choice(ODD)
        inside, key = chance.choice(places)
        action = chance.randrange(6)
        if action == 0 and isinstance(inside, dict):
            del inside[key]
        elif action == 1 and isinstance(inside, dict):
            inside[chance.choice(("", "x", "\0", "kind", "\ud800", "what"))] = chance.choice(ODD)
        elif action == 2:
            other, place = chance.choice(places)
            inside[key] = copy.deepcopy(other[place]) if _size(other[place]) < 2000 else 0
        else:
            inside[key] = copy.deepcopy(chance.choice(ODD))
    return data


def _places(data: Any) -> Any:
    """Where a value stands: what holds it, and its key or number there. Of long lists only the ends."""
    if isinstance(data, dict):
        keys: list[Any] = list(data)
    elif isinstance(data, list):
        keys = [*range(min(len(data), 5)), *range(max(5, len(data) - 3), len(data))]
    else:
        return
    for key in keys:
        yield data, key
        if not isinstance(data[key], list) or len(str(data[key])[:50]) < 50 or _size(data[key]) < 2000:
            yield from _places(data[key])


def _size(data: Any) -> int:
    return (
        sum(map(_size, data.values() if isinstance(data, dict) else data)) + 1 if isinstance(data, dict | list) else 1
    )


def spoilt_json(content: bytes, chance: random.Random) -> bytes:
    return json.dumps(spoilt_data(json.loads(content), chance)).encode()


def spoilt_lines(spoil: Callable[[bytes, random.Random], bytes]) -> Callable[[bytes, random.Random], bytes]:
    """Spoil one line of a file."""

    def spoilt(content: bytes, chance: random.Random) -> bytes:
        lines = content.split(b"\n")
        at = chance.randrange(max(1, len(lines) - 1))
        lines[at] = spoil(lines[at], chance)
        return b"\n".join(lines)

    return spoilt


def spoilt_safetensors(content: bytes, chance: random.Random) -> bytes:
    """The header changed, and its length put right."""
    size = int.from_bytes(content[:8], "little")
    header = spoilt_json(content[8 : 8 + size], chance)
    return len(header).to_bytes(8, "little") + header + content[8 + size :]


def spoilt_offsets(content: bytes, chance: random.Random) -> bytes:
    """In a part of a sharded checkpoint: where in the whole tensors its rows belong."""
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    about = header["__metadata__"]
    about[SHARDING] = spoilt_json(about[SHARDING].encode(), chance).decode()
    changed = json.dumps(header).encode()
    return len(changed).to_bytes(8, "little") + changed + content[8 + size :]

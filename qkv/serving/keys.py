"""API keys: a file of names and hashes. A key is shown once, when it is made."""

import hashlib
import hmac
import re
import secrets
import time
from dataclasses import dataclass, field
from pathlib import Path

from qkv.core.errors import DataError, UsageError
from qkv.core.files import write_atomic

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
LINE = re.compile(rf"(?P<name>{NAME.pattern}) (?P<hash>[0-9a-f]{{64}}) (?P<per_minute>\d{{1,9}})")


@dataclass
class ApiKey:
    """A key, and how often it was used lately."""

    name: str
    hash: str
    per_minute: int
    """Requests allowed in a minute; 0: any number."""
    left: float = field(init=False)
    checked: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.left = float(self.per_minute)

    def take(self, now: float) -> bool:
        """Whether it may be used once more (a token bucket that is full after a minute)."""
        if not self.per_minute:
            return True
        self.left = min(self.per_minute, self.left + (now - self.checked) * self.per_minute / 60)
        self.checked = now
        if self.left < 1:
            return False
        self.left -= 1
        return True


def hash_of(key: str) -> str:
    """What is stored of a key, which is random and long, so that a plain hash is enough."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


class ApiKeys:
    """The keys of a server."""

    def __init__(self, keys: list[ApiKey]) -> None:
        self.keys = keys

    @staticmethod
    def read(path: Path) -> "ApiKeys":
        """Read a file that `add_key` wrote; raises DataError."""
        if not path.is_file():
            raise UsageError(f"{path}: no such file; make a key with: qkv keys {path} NAME")
        found = []
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            match = LINE.fullmatch(line.strip())
            if match is None:
                raise DataError(f"{path}:{number}: is not a key; a line has a name, 64 hexadecimal digits and a number")
            found.append(ApiKey(match["name"], match["hash"], int(match["per_minute"])))
        return ApiKeys(found)

    def find(self, key: str) -> ApiKey | None:
        """The entry of a key; every entry is compared, in constant time."""
        wanted, found = hash_of(key), None
        for each in self.keys:
            if hmac.compare_digest(each.hash, wanted):
                found = each
        return found


def add_key(path: Path, name: str, per_minute: int) -> str:
    """Append a new key to the file and return it: it cannot be read from the file."""
    if not NAME.fullmatch(name):
        raise UsageError(f"{name!r}: a name has up to 64 letters, digits, dots, hyphens and underscores")
    known = ApiKeys.read(path).keys if path.exists() else []
    if any(each.name == name for each in known):
        raise UsageError(f"{path}: has a key for {name} already; choose another name")
    key = secrets.token_urlsafe(32)
    before = path.read_text(encoding="utf-8") if path.exists() else "# name, SHA-256 of the key, requests a minute\n"
    write_atomic(path, f"{before.rstrip()}\n{name} {hash_of(key)} {per_minute}\n")
    path.chmod(0o600)
    return key

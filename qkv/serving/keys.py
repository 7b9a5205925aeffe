"""API keys: a file of names and hashes. A key is shown once, when it is made."""

import hashlib
import hmac
import re
import secrets
from pathlib import Path

from qkv.core.errors import DataError, UsageError
from qkv.core.files import write_atomic
from qkv.serving.rates import TokenBucket

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
LINE = re.compile(rf"(?P<name>{NAME.pattern}) (?P<hash>[0-9a-f]{{64}}) (?P<per_minute>\d{{1,9}})")


class ApiKey:
    """A key, and how often it may be used."""

    def __init__(self, name: str, hash: str, per_minute: int) -> None:
        self.name, self.hash = name, hash
        self.bucket = TokenBucket(per_minute)


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

"""API keys: only their hashes are stored."""

import stat
from pathlib import Path

import pytest

from qkv.core.errors import DataError, UsageError
from qkv.serving.keys import ApiKeys, add_key


def test_a_key_is_found_by_its_hash_alone(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    ada, bob = add_key(path, "ada", 0), add_key(path, "bob", 60)
    assert ada not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    keys = ApiKeys.read(path)
    found = [keys.find(key) for key in (ada, bob, "wrong", "", "\ud800")]
    assert [each and each.name for each in found] == ["ada", "bob", None, None, None]
    with pytest.raises(UsageError, match="has a key for ada already"):
        add_key(path, "ada", 0)
    with pytest.raises(UsageError, match="a name has up to 64"):
        add_key(path, "a b", 0)


def test_a_line_that_is_no_key_is_named(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("# comment\n\nada 12 0\n")
    with pytest.raises(DataError, match=r"keys:3: is not a key"):
        ApiKeys.read(path)
    with pytest.raises(UsageError, match="no such file"):
        ApiKeys.read(tmp_path / "none")

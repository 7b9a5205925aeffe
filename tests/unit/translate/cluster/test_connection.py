"""What is wrong with `--on` is said at once, in one sentence."""

import importlib.util
import socket

import pytest

from qkv.core.errors import QkvError, UsageError
from qkv.translate.cluster.connection import head_address, require_ray


def test_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert head_address("ray") is None
    assert head_address("ray://head:6379") == "head:6379"
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    assert head_address("ray") == "10.0.0.1:6379"
    assert head_address("ray://head:6379") == "head:6379"
    monkeypatch.setenv("RAY_ADDRESS", "somewhere")
    with pytest.raises(UsageError, match="RAY_ADDRESS=somewhere"):
        head_address("ray")


@pytest.mark.parametrize("on", ["spark", "ray:", "ray://", "ray://head", "ray://head:x", "ray://head:70000", ""])
def test_other_words_are_refused(on: str) -> None:
    with pytest.raises(UsageError, match=r"--on .*: must be ray, or ray://HOST:PORT"):
        head_address(on)


def test_ray_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "ray" else found(name))
    with pytest.raises(UsageError, match=r"Ray is not installed; install it with: pip install 'qkv\[ray\]'"):
        require_ray("ray")


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed")
def test_nobody_answers() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(QkvError, match=rf"--on ray://127.0.0.1:{port}: nothing answers there \(Connection refused\)"):
        require_ray(f"ray://127.0.0.1:{port}")

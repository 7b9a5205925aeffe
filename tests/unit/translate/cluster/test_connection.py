"""What is wrong with `--on` is said at once, in one sentence."""

import importlib.util
import socket

import pytest

from qkv.core.errors import QkvError, UsageError
from qkv.translate.cluster.connection import head_address, require_ray


def test_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert head_address("ray") is None
    assert head_address("head:6379") == "head:6379"
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    assert head_address("ray") == "10.0.0.1:6379"
    assert head_address("head:6379") == "head:6379"
    monkeypatch.setenv("RAY_ADDRESS", "somewhere")
    with pytest.raises(UsageError, match="RAY_ADDRESS=somewhere"):
        head_address("ray")


@pytest.mark.parametrize("on", ["spark", "ray:", "head", "head:x", "head:70000", ":6379", ""])
def test_other_words_are_refused(on: str) -> None:
    with pytest.raises(UsageError, match=r"--on .*: must be ray, or HOST:PORT, the address of the head node"):
        head_address(on)


def test_addresses_of_rays_client_are_refused_with_what_to_write(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"--on ray://head:10001: is an address of Ray's client.*--on head:6379, "):
        head_address("ray://head:10001")
    monkeypatch.setenv("RAY_ADDRESS", "ray://")
    with pytest.raises(UsageError, match=r"RAY_ADDRESS=ray://: is an address of Ray's client.*--on HOST:6379, "):
        head_address("ray")


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
    with pytest.raises(QkvError, match=rf"--on 127.0.0.1:{port}: nothing answers there \(Connection refused\)"):
        require_ray(f"127.0.0.1:{port}")

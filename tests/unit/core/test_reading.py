"""Files are opened only if they can be read to an end, and JSON is what its type says."""

import os
import re
import socket
from pathlib import Path

import pytest
from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

from qkv.core.errors import CorruptFolder
from qkv.core.reading import open_file, read_record


@with_config(ConfigDict(strict=True, extra="forbid", allow_inf_nan=False))
class Thing(TypedDict):
    name: str
    size: int
    share: float


def test_a_pipe_without_a_writer_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="it is a pipe"):
        open_file(tmp_path / "pipe")


def test_devices_folders_and_sockets_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="it is a device"):
        open_file(Path("/dev/zero"))
    with pytest.raises(IsADirectoryError, match="it is a folder"):
        open_file(tmp_path)
    with socket.socket(socket.AF_UNIX) as own:
        own.bind(str(tmp_path / "socket"))
        with pytest.raises(OSError):
            open_file(tmp_path / "socket")


def test_a_file_and_the_null_device_are_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"text")
    (tmp_path / "link").symlink_to("file")
    for path, content in ((tmp_path / "file", b"text"), (tmp_path / "link", b"text"), (Path(os.devnull), b"")):
        with open_file(path) as file:
            assert file.read() == content


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"name": "a", "size": 1}', "the key share is missing"),
        ('{"name": 1, "size": 1, "share": 1}', "name"),
        ('{"name": "a", "size": true, "share": 1}', "size"),
        ('{"name": "a", "size": 1.5, "share": 1}', "size"),
        ('{"name": "a", "size": 1, "share": Infinity}', "share"),
        ('{"name": "a", "size": 1, "share": NaN}', "share"),
        ('{"name": "a", "size": 1, "share": 1e999}', "share"),
        ('{"name": "\\ud800", "size": 1, "share": 1}', "hex escape"),
        ('{"name": "a", "size": 1, "share": 1, "more": 1}', "the key more is unknown"),
        ("[" * 100_000, "recursion"),
        ("[]", "must be"),
        ("", "EOF"),
        ("\x00\xff", "JSON"),
    ],
)
def test_what_does_not_match_its_type_is_refused_in_one_sentence(content: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "thing.json"
    path.write_text(content, encoding="latin-1")
    with pytest.raises(CorruptFolder, match=re.escape(f"{path}: is not a thing")) as refused:
        read_record(path, Thing, "a thing")
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < len(str(path)) + 300


def test_what_matches_is_given(tmp_path: Path) -> None:
    path = tmp_path / "thing.json"
    path.write_text('{"name": "ä", "size": 3, "share": 1}')
    assert read_record(path, Thing, "a thing") == {"name": "ä", "size": 3, "share": 1.0}
    with pytest.raises(CorruptFolder, match="cannot be read"):
        read_record(tmp_path / "none.json", Thing, "a thing")

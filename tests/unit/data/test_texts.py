"""One text a line, from files and streams."""

import gzip
import os
import threading
from pathlib import Path

import pytest

from qkv.core.errors import DataError
from qkv.data.texts import Survey, count_ahead, paired, read_texts, stream_texts, survey

CONTENT = b"\xef\xbb\xbfone\r\n\ntw\xe2\x80\xa8o\rx\nthree"
TEXTS = ["one", "", "tw\u2028o\rx", "three"]


def test_a_file_and_a_stream_give_the_same_lines(tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_bytes(CONTENT)
    assert list(read_texts(path)) == TEXTS
    with path.open("rb") as stream:
        assert count_ahead(stream) == 4
        assert list(stream_texts(stream)) == TEXTS
        assert count_ahead(stream) == 0
    (tmp_path / "packed").write_bytes(gzip.compress(CONTENT))
    assert list(read_texts(tmp_path / "packed")) == TEXTS


def test_a_line_is_given_away_as_soon_as_it_is_there() -> None:
    """The next one is not waited for."""
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as stream:
        assert count_ahead(stream) is None
        texts = stream_texts(stream)
        os.write(writer, b"one\ntw")
        assert next(texts) == "one"

        def finish() -> None:
            os.write(writer, b"o\n")
            os.close(writer)

        late = threading.Timer(0.05, finish)
        late.start()
        assert list(texts) == ["two"]
        late.join()


def test_what_is_not_text(tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_bytes(b"fine\nab\xff\n")
    with pytest.raises(DataError, match=r"in:2:3: not valid UTF-8 text .* or read it with --invalid-utf8 replace$"):
        list(read_texts(path, "error"))
    with pytest.raises(DataError, match=r"in:2:3: .* by iconv$"):  # an option that a command lacks is not named
        list(read_texts(path))
    assert list(read_texts(path, "replace")) == ["fine", "ab\ufffd"]
    with path.open("rb") as stream, pytest.raises(DataError, match=r"^standard input:2:3: "):
        list(stream_texts(stream))


def test_survey_knows_the_content_and_not_its_form(tmp_path: Path) -> None:
    surveys = []
    for content in (b"a\nb\n", b"a\nb", b"a\r\nb\r\n", gzip.compress(b"a\nb\n"), b"ab\n", b"a\nb\n\n", b""):
        (tmp_path / "in").write_bytes(content)
        surveys.append(survey(tmp_path / "in"))
    assert surveys[0] == surveys[1] == surveys[2] == surveys[3] == Survey(surveys[0].sha256, 2)
    assert len({one.sha256 for one in surveys}) == 4
    assert [one.lines for one in surveys[4:]] == [1, 3, 0]


def test_pairs() -> None:
    names = ("left", "right")
    assert list(paired(iter("ab"), iter("xy"), names)) == [("a", "x"), ("b", "y")]
    with pytest.raises(DataError, match=r"^right: has only 1 lines, but left has more"):
        list(paired(iter("ab"), iter("x"), names))
    with pytest.raises(DataError, match=r"^left: has only 1 lines, but right has more"):
        list(paired(iter("a"), iter("xy"), names))

"""`qkv embed`: the same vectors as JSON lines and as a NumPy array, of a text or of each token."""

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from qkv.translate.ask.vectors import Pooling, TextVectors
from tests.support.commands import quiet, refused, written_lines
from tests.support.forks import Forks
from tests.support.speaker import save_speaker, sentences

POOLINGS = [(), ("--pooling", "first"), ("--normalize",), ("--pooling", "first", "--normalize")]
TOKENS = ("--pooling", "tokens")
LINES = 70
"""More than are encoded together."""


@pytest.fixture(scope="module")
def model(in_memory: Path) -> Path:
    return save_speaker(in_memory / "model")


@pytest.fixture(scope="module")
def texts(in_memory: Path) -> Path:
    path = in_memory / "texts"
    path.write_text("".join(f"{text}\n" for text in [*sentences(LINES - 1), ""]), encoding="utf-8")
    return path


def as_array(forks: Forks, model: Path, texts: Path, scratch: Path, *options: str) -> npt.NDArray[np.float32]:
    path = scratch / "vectors.npy"
    assert not quiet(forks.qkv("embed", model, "--input", texts, "--format", "npy", "--output", path, *options))
    found: npt.NDArray[np.float32] = np.load(path)
    return found


@pytest.mark.parametrize("options", POOLINGS, ids=" ".join)
def test_an_array_has_the_vectors_of_the_lines(
    model: Path, texts: Path, scratch: Path, forks: Forks, options: tuple[str, ...]
) -> None:
    records = [json.loads(line) for line in quiet(forks.qkv("embed", model, *options, stdin=texts)).splitlines()]
    given = texts.read_text(encoding="utf-8").splitlines()
    assert [record["text"] for record in records] == given
    found = as_array(forks, model, texts, scratch, *options)
    assert found.shape == (LINES, 16)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, np.array([record["vector"] for record in records], np.float32))
    pooling: Pooling = "first" if "first" in options else "mean"
    wanted = TextVectors(model).sentences(given, pooling, "--normalize" in options).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_vectors_of_tokens(model: Path, texts: Path, scratch: Path, forks: Forks) -> None:
    path = scratch / "tokens.jsonl"
    assert not quiet(forks.qkv("embed", model, "--input", texts, "--output", path, *TOKENS))
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    given = texts.read_text(encoding="utf-8").splitlines()
    assert [record["tokens"] for record in records] == [[*text.split(), "</s>"] for text in given]
    rows = [np.array(record["vectors"], np.float32) for record in records]
    assert [len(own) for own in rows] == [len(record["tokens"]) for record in records]
    np.testing.assert_array_equal(as_array(forks, model, texts, scratch, *TOKENS), np.concatenate(rows))
    means = np.array([own.mean(axis=0) for own in rows])
    np.testing.assert_allclose(as_array(forks, model, texts, scratch), means, rtol=1e-5, atol=1e-5)


def test_no_texts_are_no_vectors(model: Path, scratch: Path, forks: Forks) -> None:
    (scratch / "none").touch()
    assert as_array(forks, model, scratch / "none", scratch).shape[0] == 0
    assert not quiet(forks.qkv("embed", model, stdin=scratch / "none"))


def test_texts_that_were_cut_are_counted(scratch: Path, forks: Forks) -> None:
    short = save_speaker(scratch / "short", positions={"kind": "learned", "max_length": 4})
    (scratch / "texts").write_text("aa ab ac\naa ab ac ba\n", encoding="utf-8")
    ended = forks.qkv("embed", short, stdin=scratch / "texts")
    first, second = (json.loads(line)["vector"] for line in quiet(ended).splitlines())
    assert first == pytest.approx(second, abs=1e-5)
    assert ended.stderr == "1 of 2 texts were longer than the model's positions and were cut\n"


def test_an_array_needs_a_file(model: Path, in_memory: Path, forks: Forks) -> None:
    lines = written_lines(in_memory / "lines")
    complaint = refused(forks.qkv("embed", model, "--format", "npy", stdin=lines), 2)
    assert "--format npy needs --output FILE" in complaint

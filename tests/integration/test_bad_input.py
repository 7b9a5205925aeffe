"""Bad data and bad recipes through `qkv train`: refused before training, in one sentence, with the place."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.forks import Ended, Forks
from tests.support.tiny import plain, write_data, write_recipe

Train = Callable[..., Ended]


@pytest.fixture
def own(scratch: Path) -> Path:
    """Data to spoil."""
    return write_data(scratch / "data")


@pytest.fixture
def train(own: Path, scratch: Path, forks: Forks) -> Train:
    def run(change: Callable[[dict[str, Any]], None] = lambda recipe: None, *overrides: str) -> Ended:
        recipe = plain(own, scratch / "run", 2)
        change(recipe)
        return forks.qkv("train", write_recipe(scratch / "recipe.yaml", recipe), *overrides)

    return run


def refused(ended: Ended, code: int, scratch: Path) -> str:
    """The sentence; nothing was trained, and nothing went to stdout."""
    assert ended.code == code, ended.stderr
    assert ended.stdout == ""
    assert not list((scratch / "run" / "checkpoints").glob("*"))
    return ended.complaint


def test_files_of_different_lengths(own: Path, scratch: Path, train: Train) -> None:
    with (own / "train.tgt").open("a") as file:
        file.write("one\ntwo\n")
    sentence = refused(train(), 1, scratch)
    assert f"{own / 'train.src'}: has 60 lines, but {own / 'train.tgt'} has 62" in sentence
    (own / "dev.src").write_text("only\n")
    write_data(own)
    (own / "dev.src").write_text("only\n")
    assert "has 1 lines, but" in refused(train(), 1, scratch)


@pytest.mark.parametrize(("policy", "kept"), [("error", None), ("skip", "59 of 60"), ("replace", "60 of 60")])
def test_invalid_utf8(policy: str, kept: str | None, own: Path, scratch: Path, train: Train) -> None:
    lines = (own / "train.src").read_bytes().split(b"\n")
    lines[6] = b"ab\xffcd"
    (own / "train.src").write_bytes(b"\n".join(lines))
    ended = train(lambda recipe: None, f"data.invalid_utf8={policy}")
    if kept is None:
        assert f"{own / 'train.src'}:7:3: " in refused(ended, 1, scratch)
    else:
        assert ended.code == 0, ended.stderr
        assert f"train: {kept} pairs kept" in ended.stderr
        assert "invalid UTF-8" in ended.stderr


def test_empty_and_missing_files(own: Path, scratch: Path, train: Train) -> None:
    (own / "train.src").write_bytes(b"")
    assert f"{own / 'train.src'}: is empty" in refused(train(), 1, scratch)
    (own / "train.tgt").write_bytes(b"")
    assert "is empty" in refused(train(), 1, scratch)
    (own / "train.src").unlink()
    sentence = refused(train(), 1, scratch)
    assert sentence == f"{own / 'train.src'}: no such file; correct data.train.src or data.root"
    (own / "train.src").mkdir()
    assert "is a folder, not a file" in refused(train(), 1, scratch)


def test_no_usable_pairs(own: Path, scratch: Path, train: Train) -> None:
    (own / "train.src").write_text("abc\n" * 60)
    sentence = refused(train(lambda recipe: recipe["data"].update(max_src_tokens=3)), 1, scratch)
    assert "0 usable pairs (0 of 60 pairs kept; 60 dropped: longer than" in sentence
    (own / "train.src").write_text("\n" * 60)
    sentence = refused(train(), 1, scratch)
    assert "0 usable pairs (0 of 60 pairs kept; 60 dropped: a side is empty)" in sentence


def test_dropped_pairs_are_counted(own: Path, scratch: Path, train: Train) -> None:
    lines = (own / "train.src").read_text().splitlines()
    lines[3], lines[4] = "", "a" * 40
    (own / "train.src").write_text("".join(line + "\n" for line in lines))
    ended = train(lambda recipe: recipe["data"].update(max_src_tokens=30))
    assert ended.code == 0
    assert "train: 58 of 60 pairs kept; 1 dropped: a side is empty; 1 dropped: longer than" in ended.stderr


def test_truncated_archive(own: Path, scratch: Path, train: Train) -> None:
    packed = gzip.compress((own / "train.src").read_bytes() * 50)
    (own / "train.src").write_bytes(packed[: len(packed) // 2])
    assert str(own / "train.src") in refused(train(), 1, scratch)


def test_batch_too_small_for_a_pair(scratch: Path, train: Train) -> None:
    sentence = refused(train(lambda recipe: recipe["batch"].update(tokens=5)), 2, scratch)
    assert "batch.tokens is 5, but the longest pair has 10 tokens" in sentence


def test_vocabulary_too_large(scratch: Path, train: Train) -> None:
    pieces = {"kind": "sentencepiece", "model": "bpe", "vocab_size": 9000}
    sentence = refused(train(lambda recipe: recipe.update(text={"shared": pieces})), 2, scratch)
    assert "vocab_size" in sentence


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("  stop_aftr: 3u", ["training.stop_aftr", 'did you mean "stop_after"?']),
        ("  stop_after: 500", ["training.stop_after", "500u"]),
        ("  workers: many", ["training.workers"]),
        ("  ema: 1.5", ["training.ema", "1.5"]),
        ("  keep_last: 3\n  keep_last: 4", ["keep_last"]),
        ("\tkeep_last: 3", ["tab"]),
    ],
)
def test_recipe_with_a_mistake(line: str, words: list[str], own: Path, scratch: Path, forks: Forks) -> None:
    """The file, the line, the key, and what was meant."""
    path = scratch / "recipe.yaml"
    path.write_text(
        f"run: {scratch / 'run'}\ndata:\n  root: {own}\n  train: {{kind: text, src: train.src, tgt: train.tgt}}\n"
        f"text: {{shared: char}}\ntraining:\n{line}\n"
    )
    ended = forks.qkv("train", path)
    sentence = refused(ended, 2, scratch)
    assert any(f"{path}:{number}: " in sentence for number in (7, 8))
    for word in words:
        assert word in sentence
    assert not (scratch / "run").exists()


def test_override_with_a_mistake(scratch: Path, train: Train) -> None:
    for override, word in (
        ("training.stop_aftr=3u", "stop_after"),
        ("model.preset=huge", "tiny"),
        ("schedule=noem", "noam"),
        ("seed", "key.sub=value"),
    ):
        sentence = refused(train(lambda recipe: None, override), 2, scratch)
        assert word in sentence
    assert not (scratch / "run").exists()


def test_every_problem_is_told_at_once(scratch: Path, train: Train) -> None:
    """Several mistakes: a line each, and no traceback."""
    ended = train(lambda recipe: recipe.update(sead=1, modle={}))
    assert ended.code == 2
    assert '"seed"' in ended.stderr
    assert '"model"' in ended.stderr
    assert "Traceback" not in ended.stderr


def test_recipe_that_is_not_there(scratch: Path, forks: Forks) -> None:
    ended = forks.qkv("train", scratch / "none.yaml")
    assert refused(ended, 2, scratch) == f"{scratch / 'none.yaml'}: no such file"


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not say how much memory is taken")
def test_a_model_that_does_not_fit_into_memory(own: Path, scratch: Path, forks: Forks) -> None:
    """Neither the one whose weights are too many, nor the one that PyTorch finds too large on the way."""
    recipe = write_recipe(scratch / "recipe.yaml", plain(own, scratch / "run", 2))
    little = "tests.support.faults:with_little_memory"
    ended = forks.call(little, 1 << 30, "train", str(recipe), "model.d_ff=8000000")
    assert "GiB are free; choose a smaller model.d_model" in refused(ended, 1, scratch)
    ended = forks.call(little, 1 << 30, "train", str(recipe), "model.d_ff=500000", "run=" + str(scratch / "wide"))
    assert "memory" in refused(ended, 1, scratch)

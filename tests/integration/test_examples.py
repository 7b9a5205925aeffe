"""The programs that make data."""

import subprocess
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]


def make_commands(*arguments: object) -> None:
    subprocess.run([sys.executable, str(ROOT / "examples" / "make_commands.py"), *map(str, arguments)], check=True)


def test_commands_mean_what_they_say(tmp_path: Path) -> None:
    make_commands(tmp_path)
    parts = {
        name: dict(line.split("\t") for line in (tmp_path / f"{name}.tsv").read_text().splitlines())
        for name in ("train", "dev", "test")
    }
    assert {name: len(part) for name, part in parts.items()} == {"train": 16_228, "dev": 500, "test": 4_182}
    meanings = {**parts["train"], **parts["dev"], **parts["test"]}
    assert len(meanings) == 20_910, "the number of SCAN's commands; none is in two files"
    for command, actions in {
        "walk": "WALK",
        "turn left twice": "LEFT LEFT",
        "jump right": "RIGHT JUMP",
        "run opposite left": "LEFT LEFT RUN",
        "turn opposite right": "RIGHT RIGHT",
        "look around left": "LEFT LOOK LEFT LOOK LEFT LOOK LEFT LOOK",
        "turn around right": "RIGHT RIGHT RIGHT RIGHT",
        "walk and jump thrice": "WALK JUMP JUMP JUMP",
        "walk left after jump twice": "JUMP JUMP LEFT WALK",
    }.items():
        assert meanings[command] == actions


def test_fewer_commands(tmp_path: Path) -> None:
    make_commands(tmp_path, "--pairs", 30, "--dev", 10, "--test", 5)
    assert [len((tmp_path / f"{name}.tsv").read_text().splitlines()) for name in ("train", "dev", "test")] == [
        30,
        10,
        5,
    ]


def test_phrases_hold_every_pair_once_a_copy(tmp_path: Path) -> None:
    table, out = tmp_path / "words.tsv", tmp_path / "new" / "phrases.tsv"
    table.write_text("".join(f"w{i}\tx{i} y\n" for i in range(9)), encoding="utf-8")
    program = str(ROOT / "examples" / "make_phrases.py")
    subprocess.run([sys.executable, program, str(table), str(out), "--words", "3", "--copies", "2"], check=True)
    lines = [line.split("\t") for line in out.read_text(encoding="utf-8").splitlines()]
    assert len(lines) == 6
    for copy in (lines[:3], lines[3:]):
        assert sorted(word for src, _ in copy for word in src.split()) == [f"w{i}" for i in range(9)]
    for src, tgt in lines:
        assert tgt == " ".join(f"x{word[1:]} y" for word in src.split())


def test_images_and_series_of_python_packages(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(ROOT / "examples" / "make_images.py"), str(tmp_path / "digits")], check=True)
    parts = {name: np.load(tmp_path / "digits" / f"{name}.npz") for name in ("train", "dev", "test")}
    assert {name: part["images"].shape for name, part in parts.items()} == {
        "train": (1348, 8, 8),
        "dev": (179, 8, 8),
        "test": (270, 8, 8),
    }
    assert {part["images"].dtype for part in parts.values()} == {np.dtype(np.uint8)}
    subprocess.run([sys.executable, str(ROOT / "examples" / "make_series.py"), str(tmp_path)], check=True)
    lengths = {name: len((tmp_path / f"{name}.csv").read_text().splitlines()) for name in ("sunspots", "co2", "sea")}
    assert lengths == {"sunspots": 310, "co2": 527, "sea": 733}, "rows and a header"


def test_numbers_are_read_off_images(tmp_path: Path) -> None:
    """The encoder of images with the decoder of texts."""
    programs = ROOT / "examples"
    several = ["--side-by-side", "2", "--rows", "3000"]
    subprocess.run([sys.executable, str(programs / "make_images.py"), str(tmp_path), *several], check=True)
    short = ["--updates", "250", "--width", "32", "--layers", "1"]
    command = [sys.executable, str(programs / "read_numbers.py"), str(tmp_path), *short]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert int(shown.splitlines()[-1].split()[0]) > 250, "of 500; guessing gets a few"


def test_missing_words_and_articles(tmp_path: Path) -> None:
    (tmp_path / "texts").write_text("A man and the dog, asleep.\nSnow.\nAn old Woman sits.\n")
    command = [sys.executable, str(ROOT / "examples" / "make_cloze_data.py"), str(tmp_path / "out")]
    texts = ["--texts", str(tmp_path / "texts"), "--dev", str(tmp_path / "texts")]
    subprocess.run([*command, *texts, "--facts"], check=True)
    made = {path.stem: path.read_text().splitlines() for path in (tmp_path / "out").glob("*.tsv")}
    assert made["who"] == ["A ___ and the dog , asleep\tman", "An old ___ sits\twoman"]
    assert made["who-facts"] == [
        "A . ___ . and . the . dog . , . asleep . A ___ and\tman",
        "An . old . ___ . sits . old ___ sits\twoman",
    ]
    assert made["articles"] == ["man and dog , asleep\ta - the - -", "Snow\t-", "old Woman sits\tan - -"]

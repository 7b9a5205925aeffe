"""`qkv align`: links, drawings, the choice of a head, and what can be wrong."""

from pathlib import Path

import pytest

from tests.support.commands import quiet, refused, written
from tests.support.forks import Forks
from tests.support.speaker import save_speaker

SRC, TGT = b"aa ab ba\nba\nbb ab\n", b"ba aa\nab ab\nbb\n"


@pytest.fixture(scope="module")
def given(in_memory: Path) -> tuple[object, ...]:
    model = save_speaker(in_memory / "aligned")
    src, tgt = written(in_memory / "align.src", SRC), written(in_memory / "align.tgt", TGT)
    return ("align", model, "--src", src, "--tgt", tgt)


def test_links_of_every_target_word(given: tuple[object, ...], forks: Forks) -> None:
    lines = quiet(forks.qkv(*given, "--layer", 1, "--head", 0)).splitlines()
    assert [len(line.split()) for line in lines] == [2, 2, 1]
    assert lines[1] == "0-0 0-1"


def test_the_head_is_chosen_by_gold_links_and_named(given: tuple[object, ...], scratch: Path, forks: Forks) -> None:
    lines = quiet(forks.qkv(*given, "--layer", 1, "--head", 1, "--shifted"))
    gold = written(scratch / "gold", lines.encode())
    figure = scratch / "figure.svg"
    chosen = forks.qkv(*given, "--gold", gold, "--figure", figure)
    assert chosen.code == 0, chosen.stderr
    assert chosen.stdout == lines
    assert "chosen: layer" in chosen.stderr
    assert "AER 0.0, precision 100.0, recall 100.0" in chosen.stderr
    assert figure.read_text(encoding="utf-8").count("pair ") == 3


def test_weights_drawn_in_the_terminal(given: tuple[object, ...], forks: Forks) -> None:
    drawn = quiet(forks.qkv(*given, "--layer", 1, "--head", 1, "--format", "matrix")).splitlines()
    assert {"ba", "aa", "ab", "bb"} <= {line.split(" ")[0] for line in drawn}


def test_refusals(given: tuple[object, ...], scratch: Path, forks: Forks) -> None:
    short = written(scratch / "short", b"0-0\n")
    assert "give --layer and --head together" in refused(forks.qkv(*given, "--layer", 1), 2)
    assert "layer 99: the decoder has the layers 1 to" in refused(forks.qkv(*given, "--layer", 99, "--head", 1), 2)
    assert "has 1 lines, but there are 3 pairs" in refused(forks.qkv(*given, "--gold", short), 1)
    wrong = written(scratch / "wrong", b"0-0\n0:0\n\n")
    assert "wrong:2: '0:0' is not a link" in refused(forks.qkv(*given, "--gold", wrong), 1)

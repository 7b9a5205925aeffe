"""The trained models that come with the package: found by name, small, documented, and not changed in place."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from qkv import Translator, load_model
from qkv.core.errors import UsageError
from qkv.core.files import verify_folder
from qkv.models.pretrained import card_title, pretrained_card, pretrained_folder, pretrained_names
from qkv.models.saved.locate import changed_copy, locate_model
from tests.support.forks import Forks

LARGEST = 5_000_000
KNOWN = {
    "cmudict": {
        "table": "T EY B AH L",
        "paper": "P EY P ER",
        "suspense": "S AH S P EH N S",
        "running": "R AH N IH NG",
        "yellow": "Y EH L OW",
    },
    "es-en": {
        "No sé.": "I don't know.",
        "Tengo hambre.": "I'm hungry.",
        "Me gusta el café.": "I like coffee.",
        "Gracias por tu ayuda.": "Thank you for your help.",
        "Ella es mi hermana.": "She is my sister.",
    },
}


def test_every_model_is_tested() -> None:
    assert pretrained_names() == sorted(KNOWN)


@pytest.mark.parametrize("name", pretrained_names())
def test_a_model_is_small_complete_and_has_a_card(name: str) -> None:
    folder = pretrained_folder(name)
    assert folder is not None
    assert sum(path.stat().st_size for path in folder.rglob("*")) < LARGEST
    assert {"card.md", "config.yaml", "model.safetensors"} <= set(verify_folder(folder)["files"])
    sections = re.findall(r"^## (.+)$", pretrained_card(name), re.M)
    assert sections == ["Use", "Data", "Training", "Scores", "Limits"]


@pytest.mark.parametrize("name", pretrained_names())
def test_a_model_does_what_its_card_says(name: str) -> None:
    """Most of a few easy sources are right: on which, a processor's rounding may decide."""
    found = Translator(name, engine="torch").translate(list(KNOWN[name]))
    right = [each.text == wanted for each, wanted in zip(found, KNOWN[name].values(), strict=True)]
    assert sum(right) >= len(right) - 1, [each.text for each in found]


def test_list_show_and_copy(forks: Forks, scratch: Path) -> None:
    listed, width = forks.qkv("pretrained", "list", cwd=scratch), max(map(len, KNOWN))
    assert listed.stdout.splitlines() == [f"{name:{width}}  {card_title(name)}" for name in pretrained_names()]
    assert forks.qkv("pretrained", "show", "es-en", cwd=scratch).stdout == pretrained_card("es-en")
    unknown = forks.qkv("pretrained", "show", "es-ne", cwd=scratch)
    assert (unknown.code, unknown.complaint) == (
        2,
        f"es-ne: no such model; the models that come with qkv are {', '.join(KNOWN)}",
    )

    assert forks.qkv("pretrained", "copy", "es-en", "mine", cwd=scratch).code == 0
    assert load_model(scratch / "mine").config == load_model("es-en").config
    again = forks.qkv("pretrained", "copy", "es-en", "mine", cwd=scratch)
    assert (again.code, again.complaint) == (2, "mine: exists already; name another folder")


def test_a_folder_of_the_same_name_comes_first(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(scratch)
    assert locate_model("es-en") == pretrained_folder("es-en")
    subprocess.run(
        [sys.executable, "-c", "from qkv.cli import main; main()", "pretrained", "copy", "es-en"], check=True
    )
    assert locate_model("es-en") == Path("es-en")


def test_they_are_not_changed(forks: Forks, scratch: Path) -> None:
    (scratch / "dev.tsv").write_text("No sé.\tI don't know.\n", encoding="utf-8")
    ended = forks.qkv("tune", "es-en", "--tsv", "dev.tsv", cwd=scratch)
    assert (ended.code, ended.complaint) == (
        2,
        "es-en: comes with qkv and is not changed; copy it: qkv pretrained copy es-en",
    )
    with (
        pytest.raises(UsageError, match="comes with qkv"),
        changed_copy(locate_model("es-en"), locate_model("es-en")),
    ):
        pass


def test_an_unknown_name_is_told_which_there_are(forks: Forks, scratch: Path) -> None:
    ended = forks.qkv("translate", "es_en", cwd=scratch)
    assert ended.complaint == (
        "es_en: no such folder; give the folder of a model or of a run, or a model that comes with qkv "
        f"({', '.join(KNOWN)})"
    )

"""Trained models that come with the package: one folder each, with the model's card beside its files."""

from pathlib import Path

from qkv.core.errors import UsageError
from qkv.core.files import MANIFEST

ROOT = Path(__file__).resolve().parent
CARD = "card.md"


def pretrained_names() -> list[str]:
    """The names by which `load_model`, `Translator` and the command line find them."""
    return sorted(manifest.parent.name for manifest in ROOT.glob(f"*/{MANIFEST}"))


def pretrained_folder(name: str) -> Path | None:
    """The folder of the model of this name; None: there is no such model."""
    return ROOT / name if name in pretrained_names() else None


def require_pretrained(name: str) -> Path:
    """The folder of the model of this name; raises UsageError if there is none."""
    folder = pretrained_folder(name)
    if folder is None:
        raise UsageError(f"{name}: no such model; the models that come with qkv are {', '.join(pretrained_names())}")
    return folder


def pretrained_card(name: str) -> str:
    """What a model was trained on and how, its scores and its limits, in Markdown."""
    return (require_pretrained(name) / CARD).read_text(encoding="utf-8")


def card_title(name: str) -> str:
    """The first line of a model's card."""
    return pretrained_card(name).splitlines()[0].removeprefix("# ")


def refuse_to_change(folder: Path) -> None:
    """Raises UsageError if this is the folder of a model of the package."""
    if folder.resolve().parent == ROOT:
        raise UsageError(
            f"{folder.name}: comes with qkv and is not changed; copy it: qkv pretrained copy {folder.name}"
        )

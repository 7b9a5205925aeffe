"""A trained model as a small folder with its card: how the models that come with qkv are made.

    python examples/pack_model.py runs/tatoeba-spa-eng packed/es-en --card card.md --languages es en

The weights are stored in int8, a quarter of the size (`--storage float16`: half); they are loaded as float32. Score the
packed folder, not the run, for the card.
"""

import argparse
import shutil
import tempfile
from pathlib import Path

from qkv import load_model, save_model
from qkv.models.pretrained import CARD
from qkv.models.saved.locate import changed_copy


def pack(model: Path, out: Path, card: Path, languages: list[str], storage: str) -> int:
    """Write the folder; returns its size in bytes."""
    with tempfile.TemporaryDirectory() as scratch:
        stored = Path(scratch) / "model"
        save_model(stored, load_model(model), {"languages": languages}, storage)
        with changed_copy(stored, out) as folder:
            shutil.copyfile(card, folder / CARD)
    return sum(path.stat().st_size for path in out.rglob("*") if path.is_file())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="the folder of a run or of a model")
    parser.add_argument("out", type=Path, help="the folder to write")
    parser.add_argument("--card", type=Path, required=True, help="the model's card, in Markdown")
    parser.add_argument("--languages", nargs=2, required=True, help="codes of source and target, for qkv serve")
    parser.add_argument("--storage", default="int8", choices=["float32", "float16", "int8"])
    options = parser.parse_args()
    size = pack(options.model, options.out, options.card, options.languages, options.storage)
    print(f"{options.out}: {size / 1e6:.1f} MB")

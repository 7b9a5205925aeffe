"""Writes the example that the page of `qkv serve` shows before its model is loaded: web/example.py > example.json."""

import json
import sys

from qkv import Translator, look_inside
from qkv.visual.see.record import as_record

MODEL = "es-en"
TEXT = "Me gusta leer libros."


def example() -> dict[str, object]:
    """The answers of /v1/translate and /v1/see to the example's text."""
    answer = Translator(MODEL, engine="torch").translate(TEXT, nbest=3, alignment=True)
    (seen,) = look_inside(MODEL, TEXT).sentences
    return {"text": TEXT, "model": MODEL, "answer": answer.as_dict(), "record": as_record(seen)}


if __name__ == "__main__":
    json.dump(example(), sys.stdout, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    sys.stdout.write("\n")

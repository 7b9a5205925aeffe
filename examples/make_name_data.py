"""Write sentence pairs whose names and numbers nobody has seen before.

    python examples/make_name_data.py data/tatoeba-spa-eng toy/names --src spa --tgt eng

reads `train`, `dev` and `test` of a parallel corpus (`train.spa`, `train.eng`, ...) and keeps the pairs with a name or
a number that stands on both sides. Each of these words gets a random one in its place, the same on both sides and
another in every pair. Words and punctuation are separated by spaces; words other than names are in lower case. The
folder gets `train.tsv`, `dev.tsv` and `test.tsv`, and the same pairs as `train.spa`, `train.eng` and so on, with the
links of these words, each to itself, in `train.align` (Pharaoh: `2-3` for source word 2 and target word 3).
"""

import argparse
import random
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from string import ascii_lowercase, digits

TOKEN = re.compile(r"\w+|[^\w\s]")


def read_pairs(folder: Path, name: str, sides: tuple[str, str]) -> list[tuple[list[str], list[str]]]:
    """The pairs of `name`.src and `name`.tgt as tokens."""
    src, tgt = ((folder / f"{name}.{side}").read_text(encoding="utf-8").splitlines() for side in sides)
    return [(TOKEN.findall(left), TOKEN.findall(right)) for left, right in zip(src, tgt, strict=True)]


def names_of(src: list[str], tgt: list[str], seen: Counter[str]) -> list[str]:
    """Numbers, and words that are nearly always capitalised, that both sides have equally often."""
    left, right = Counter(src), Counter(tgt)
    return [
        word
        for word in left
        if left[word] == right[word]
        and (word.isdecimal() or (word[0].isupper() and seen[word] > 10 * seen[word.lower()]))
    ]


def fresh_words(letters: str, length: int, generator: random.Random) -> Iterator[str]:
    """Random words, each once."""
    seen: set[str] = set()
    while True:
        word = "".join(generator.choices(letters, k=length)).capitalize()
        if word not in seen:
            seen.add(word)
            yield word


def links_of(src: list[str], tgt: list[str], names: Collection[str]) -> str:
    """Each of `names` that a side has once is linked to itself."""
    once = [word for word in names if src.count(word) == tgt.count(word) == 1]
    return " ".join(f"{src.index(word)}-{tgt.index(word)}" for word in once)


def write_lines(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path, help="a folder with train, dev and test of both languages")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--src", default="spa", help="ending of the source files")
    parser.add_argument("--tgt", default="eng", help="ending of the target files")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    parts = {name: read_pairs(options.corpus, name, (options.src, options.tgt)) for name in ("train", "dev", "test")}
    seen = Counter(word for pair in parts["train"] for side in pair for word in side)
    generator = random.Random(options.seed)
    words, numbers = fresh_words(ascii_lowercase, 6, generator), fresh_words(digits, 6, generator)
    options.folder.mkdir(parents=True, exist_ok=True)
    for name, pairs in parts.items():
        rows = []
        for src, tgt in pairs:
            names = names_of(src, tgt, seen)
            new = {old: next(numbers if old.isdecimal() else words) for old in names}
            if new:
                sides = (" ".join(new.get(word, word.lower()) for word in side) for side in (src, tgt))
                rows.append((*sides, links_of(src, tgt, names)))
        write_lines(options.folder / f"{name}.tsv", (f"{src}\t{tgt}" for src, tgt, _ in rows))
        for column, ending in enumerate((options.src, options.tgt, "align")):
            write_lines(options.folder / f"{name}.{ending}", (row[column] for row in rows))
        print(f"{name}: {len(rows):,} of {len(pairs):,} pairs have a name or a number on both sides")


if __name__ == "__main__":
    main()

"""How often attention links a name to itself: alignments of real sentences, as far as their links are certain.

    python benchmarks/name_links.py MODEL [MODEL ...] --train TRAIN.tsv --dev DEV.tsv --test TEST.tsv

A word that no training pair has, and that both sides of a pair have once, belongs to itself. How many of these words
of TEST.tsv does the attention of the model, which reads both sides, link so? Layer, head and step are those that find
the most links of DEV.tsv. Sides are split at white space, by the model's tokeniser, too.
"""

import argparse
from pathlib import Path

from qkv.data.alignments.words import WordAlignment
from qkv.translate.align import Aligner

Pairs = list[tuple[str, str]]


def read_pairs(path: Path) -> Pairs:
    rows = (line.split("\t")[:2] for line in path.read_text(encoding="utf-8").splitlines())
    return [(src, tgt) for src, tgt in rows]


def certain_links(src: str, tgt: str, seen: set[str]) -> set[tuple[int, int]]:
    """(source word, target word) of the unseen words that each side has once."""
    left, right = src.split(), tgt.split()
    return {
        (left.index(word), right.index(word))
        for word in left
        if word not in seen and left.count(word) == right.count(word) == 1
    }


def found_links(alignments: list[WordAlignment], pairs: Pairs, seen: set[str]) -> tuple[int, int]:
    """How many of the certain links were found, and how many there are."""
    wanted = [certain_links(*pair, seen) for pair in pairs]
    found = sum(len(links & set(one.links)) for links, one in zip(wanted, alignments, strict=True))
    return found, sum(map(len, wanted))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="+")
    for name in ("train", "dev", "test"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    arguments = parser.parse_args()
    seen = {word for pair in read_pairs(arguments.train) for side in pair for word in side.split()}
    dev, test = read_pairs(arguments.dev), read_pairs(arguments.test)
    print("| model | attention | names linked to themselves |\n|---|---|---|")
    for model in arguments.models:
        aligner = Aligner(model)
        heads = aligner.heads()
        by_head = zip(*aligner.align_by_all(dev, heads), strict=True)
        shares = [found_links(list(alignments), dev, seen)[0] for alignments in by_head]
        best = heads[shares.index(max(shares))]
        found, wanted = found_links(aligner.align(test, best), test, seen)
        print(f"| {model.name} | {best} | {found} of {wanted} |", flush=True)


if __name__ == "__main__":
    main()

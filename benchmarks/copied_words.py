"""How many words that no training pair has are copied from the source: exact match of names and numbers, and BLEU.

    python benchmarks/copied_words.py MODEL [MODEL ...] --train TRAIN.tsv --data TEST.tsv

A word counts if it stands on both sides of a test pair and nowhere in TRAIN.tsv. `words` says how many of them the
outputs of greedy search have, each as often as the reference; `sentences` how many outputs have all of theirs and no
other word of the source that no training pair has. Sides are split at white space.
"""

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import sacrebleu

from qkv import Translator
from qkv.search.greedy import GreedyConfig


def read_pairs(path: Path) -> list[tuple[str, str]]:
    rows = (line.split("\t")[:2] for line in path.read_text(encoding="utf-8").splitlines())
    return [(src, tgt) for src, tgt in rows]


def unseen_words(text: str, seen: set[str]) -> Counter[str]:
    return Counter(word for word in text.split() if word not in seen)


def copied(outputs: Sequence[str], pairs: Sequence[tuple[str, str]], seen: set[str]) -> tuple[int, int, int]:
    """How many words had to be copied and how many were; and how many outputs copied exactly these."""
    wanted = found = exact = 0
    for output, (src, tgt) in zip(outputs, pairs, strict=True):
        names = unseen_words(src, seen) & unseen_words(tgt, seen)
        had = unseen_words(src, seen) & unseen_words(output, seen)
        wanted += names.total()
        found += (names & had).total()
        exact += names == had
    return wanted, found, exact


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--train", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    arguments = parser.parse_args()
    seen = {word for pair in read_pairs(arguments.train) for side in pair for word in side.split()}
    pairs = read_pairs(arguments.data)
    print("| model | words | sentences | BLEU |\n|---|---|---|---|")
    for model in arguments.models:
        translator = Translator(model, "torch", GreedyConfig())
        outputs = [found.text for found in translator.translate([src for src, _ in pairs])]
        wanted, found, exact = copied(outputs, pairs, seen)
        bleu = sacrebleu.corpus_bleu(outputs, [[tgt for _, tgt in pairs]], tokenize="none", force=True).score
        words, sentences = f"{found} of {wanted}", f"{exact} of {len(pairs)}"
        print(f"| {model.name} | {words} | {sentences} | {bleu:.1f} |", flush=True)


if __name__ == "__main__":
    main()

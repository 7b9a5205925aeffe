"""Write pairs that can only be learned by copying: words of the source that no vocabulary holds.

    python examples/make_copy_data.py toy/unseen

makes `train.tsv`, `dev.tsv` and `test.tsv` (source, tab, target). The target is the source. Some words are from a small
list, the others are random strings of letters: those of dev and test are not in train.
"""

import argparse
import random
from collections.abc import Iterator
from pathlib import Path
from string import ascii_lowercase

KNOWN = [left + right for left in "abc" for right in "abc"]


def fresh_words(generator: random.Random) -> Iterator[str]:
    """Random words, each once."""
    seen = set(KNOWN)
    while True:
        word = "".join(generator.choices(ascii_lowercase, k=5))
        if word not in seen:
            seen.add(word)
            yield word


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pairs", type=int, default=5000, help="training pairs")
    parser.add_argument("--test", type=int, default=500, help="pairs of dev, and of test")
    parser.add_argument("--shortest", type=int, default=3)
    parser.add_argument("--longest", type=int, default=8)
    parser.add_argument("--unseen", type=float, default=0.5, help="share of words that occur in one pair only")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    generator = random.Random(options.seed)
    fresh = fresh_words(generator)
    options.folder.mkdir(parents=True, exist_ok=True)
    for name, pairs in (("train", options.pairs), ("dev", options.test), ("test", options.test)):
        lines = []
        for _ in range(pairs):
            count = generator.randint(options.shortest, options.longest)
            unseen = [generator.random() < options.unseen for _ in range(count)]
            text = " ".join(next(fresh) if new else generator.choice(KNOWN) for new in unseen)
            lines.append(f"{text}\t{text}\n")
        (options.folder / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()

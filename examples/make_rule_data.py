"""Write pairs of five rules with variables, like those of the CopyNet paper (Gu et al. 2016).

    python examples/make_rule_data.py toy/rules

A rule such as `a b x c -> d x e x` has constant words and variables; in each pair a variable stands for a few random
words that occur in no other pair. `x-0`, `x-x`, `x-xx`, `xy-x` and `xy-xy` say which variables the two sides have. The
folder gets `train.tsv`, `dev.tsv`, and a test file for each of the five.
"""

import argparse
import random
from collections.abc import Iterator
from pathlib import Path
from string import ascii_lowercase

KINDS = {"x-0": ("x", ""), "x-x": ("x", "x"), "x-xx": ("x", "xx"), "xy-x": ("xy", "x"), "xy-xy": ("xy", "xy")}


def fresh_words(generator: random.Random) -> Iterator[str]:
    """Random words, each once."""
    seen: set[str] = set()
    while True:
        word = "".join(generator.choices(ascii_lowercase, k=5))
        if word not in seen:
            seen.add(word)
            yield word


def template(variables: str, constants: list[str], generator: random.Random) -> list[str]:
    """One to three constant words before, between and after the variables."""
    words: list[str] = []
    for variable in [*variables, ""]:
        words += generator.choices(constants, k=generator.randint(1, 3))
        words += [variable] * bool(variable)
    return words


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rules", type=int, default=4, help="rules of each of the five kinds")
    parser.add_argument("--pairs", type=int, default=300, help="training pairs of each rule")
    parser.add_argument("--test", type=int, default=25, help="test pairs of each rule")
    parser.add_argument("--longest", type=int, default=6, help="words of a variable")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    generator = random.Random(options.seed)
    fresh = fresh_words(generator)
    constants = [f"c{number}" for number in range(40)]
    parts: dict[str, list[str]] = {"train": [], "dev": [], **{f"test-{kind}": [] for kind in KINDS}}
    for kind, sides in KINDS.items():
        for _ in range(options.rules):
            src, tgt = (template(side, constants, generator) for side in sides)
            sizes = {"train": options.pairs, "dev": 5, f"test-{kind}": options.test}
            for part, count in sizes.items():
                for _ in range(count):
                    values = {
                        name: " ".join(next(fresh) for _ in range(generator.randint(1, options.longest)))
                        for name in sides[0]
                    }
                    pair = (" ".join(values.get(word, word) for word in side) for side in (src, tgt))
                    parts[part].append("\t".join(pair) + "\n")
    options.folder.mkdir(parents=True, exist_ok=True)
    for name, lines in parts.items():
        (options.folder / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()

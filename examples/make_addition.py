"""Write sums of two random numbers, for models that learn algorithms.

    python examples/make_addition.py toy/addition --longest 20

makes `train.tsv` and `dev.tsv` (problem, tab, sum). The lowest digit stands first. A token of a problem is a column of
two digits, as one writes them below each other: 12 + 39 = 51 is `2+9 1+3`, tab, `1 5`. The sum has as many digits as
the problem has columns: a carry out of the last column is lost, as in a processor.
"""

import argparse
import random
from pathlib import Path


def addition(generator: random.Random, columns: int, base: int) -> tuple[str, str]:
    """A problem and its sum."""
    problem, total, carry = [], [], 0
    for _ in range(columns):
        one, other = generator.randrange(base), generator.randrange(base)
        carry, digit = divmod(one + other + carry, base)
        problem.append(f"{one}+{other}")
        total.append(str(digit))
    return " ".join(problem), " ".join(total)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pairs", type=int, default=10000, help="training pairs")
    parser.add_argument("--dev", type=int, default=200, help="dev pairs")
    parser.add_argument("--base", type=int, default=2, choices=range(2, 11), metavar="2..10")
    parser.add_argument("--shortest", type=int, default=1, help="columns")
    parser.add_argument("--longest", type=int, default=20, help="columns")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    generator = random.Random(options.seed)
    options.folder.mkdir(parents=True, exist_ok=True)
    for name, count in (("dev", options.dev), ("train", options.pairs)):
        lengths = (generator.randint(options.shortest, options.longest) for _ in range(count))
        lines = ["\t".join(addition(generator, length, options.base)) + "\n" for length in lengths]
        (options.folder / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()

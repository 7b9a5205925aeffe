"""Write pairs of a task that needs a long memory: the value of a key that is asked for at the end.

    python examples/make_long_data.py long --longest 4096

makes `long/train.tsv` and `long/dev.tsv` (source, tab, target), tokens between spaces. A source is noise with a few
notes such as `k7=v3` anywhere in it, each key once, and ends with a question such as `k7=?`; the target is `v3`. The
sources of train have lengths between --shortest and --longest, and short ones are so much more frequent that each
length has as many tokens in all: a task is learnt sooner from many cheap examples. Those of dev are --longest tokens
long.
"""

import argparse
import random
from pathlib import Path

KEYS, VALUES, NOISE = 16, 8, 16


def example(generator: random.Random, length: int, notes: int) -> tuple[str, str]:
    """A source of `length` tokens and its target."""
    keys = generator.sample(range(KEYS), notes)
    values = [generator.randrange(VALUES) for _ in keys]
    tokens = [f"n{generator.randrange(NOISE)}" for _ in range(length - 1)]
    for place, key, value in zip(generator.sample(range(length - 1), notes), keys, values, strict=True):
        tokens[place] = f"k{key}=v{value}"
    asked = generator.randrange(notes)
    return " ".join([*tokens, f"k{keys[asked]}=?"]), f"v{values[asked]}"


def some_length(generator: random.Random, shortest: int, longest: int) -> int:
    """With a probability that falls with the square: the sources from 100 to 200, all together, are as long as those
    from 200 to 400."""
    return round(1 / generator.uniform(1 / longest, 1 / shortest))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pairs", type=int, default=40000, help="training pairs")
    parser.add_argument("--dev", type=int, default=50, help="dev pairs")
    parser.add_argument("--shortest", type=int, default=32, help="tokens of the shortest source")
    parser.add_argument("--longest", type=int, default=4096, help="tokens of the longest source")
    parser.add_argument("--notes", type=int, default=8, help="keys with a value in a source")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if not 1 <= options.notes <= min(KEYS, options.shortest - 1):
        raise SystemExit(f"--notes must be between 1 and {KEYS}, and below --shortest")
    generator = random.Random(options.seed)
    options.folder.mkdir(parents=True, exist_ok=True)
    for name, count, shortest in (("dev", options.dev, options.longest), ("train", options.pairs, options.shortest)):
        with (options.folder / f"{name}.tsv").open("w", encoding="utf-8") as file:
            for _ in range(count):
                source, target = example(generator, some_length(generator, shortest, options.longest), options.notes)
                file.write(f"{source}\t{target}\n")


if __name__ == "__main__":
    main()

"""Write pairs of a toy task: copy or reverse a string of random letters.

    python examples/make_toy_data.py toy --task reverse

makes `toy/train.tsv` and `toy/dev.tsv` (source, tab, target). No string is in both.
"""

import argparse
import random
from pathlib import Path

TASKS = {"copy": lambda text: text, "reverse": lambda text: text[::-1]}


def strings(count: int, letters: str, shortest: int, longest: int, seed: int) -> list[str]:
    """`count` different strings, in random order."""
    generator = random.Random(seed)
    possible = sum(len(letters) ** length for length in range(shortest, longest + 1))
    if count > possible // 2:
        raise SystemExit(f"{count} different strings are too many for these letters and lengths; ask for fewer")
    found: dict[str, None] = {}
    while len(found) < count:
        found["".join(generator.choices(letters, k=generator.randint(shortest, longest)))] = None
    return list(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--task", choices=list(TASKS), default="reverse")
    parser.add_argument("--pairs", type=int, default=5000, help="training pairs")
    parser.add_argument("--dev", type=int, default=100, help="dev pairs")
    parser.add_argument("--letters", default="abcdefgh")
    parser.add_argument("--shortest", type=int, default=3)
    parser.add_argument("--longest", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    task = TASKS[options.task]
    texts = strings(options.pairs + options.dev, options.letters, options.shortest, options.longest, options.seed)
    options.folder.mkdir(parents=True, exist_ok=True)
    for name, part in (("train", texts[options.dev :]), ("dev", texts[: options.dev])):
        lines = "".join(f"{text}\t{task(text)}\n" for text in part)
        (options.folder / f"{name}.tsv").write_text(lines, encoding="utf-8")


if __name__ == "__main__":
    main()

"""Write commands and the actions they ask for: all sentences of a small grammar, as in SCAN (Lake and Baroni 2018).

    python examples/make_commands.py commands

makes `commands/train.tsv`, `dev.tsv` and `test.tsv` (command, tab, actions). No command is in two of them.

    jump around left twice and walk    LEFT JUMP LEFT JUMP LEFT JUMP LEFT JUMP ... WALK
    run opposite right after look      LOOK RIGHT RIGHT RUN
"""

import argparse
import random
from collections.abc import Iterator
from pathlib import Path

ACTIONS = {"walk": ["WALK"], "look": ["LOOK"], "run": ["RUN"], "jump": ["JUMP"], "turn": []}
TURNS = {"left": "LEFT", "right": "RIGHT"}
TIMES = {"": 1, " twice": 2, " thrice": 3}

Command = tuple[str, list[str]]


def directed() -> Iterator[Command]:
    """An action alone, or with a direction. To go `around` is to do it at each of the four quarter turns."""
    for verb, action in ACTIONS.items():
        if action:
            yield verb, action
        for side, turn in TURNS.items():
            yield f"{verb} {side}", [turn, *action]
            yield f"{verb} opposite {side}", [turn, turn, *action]
            yield f"{verb} around {side}", [turn, *action] * 4


def repeated() -> list[Command]:
    return [(text + word, actions * times) for text, actions in directed() for word, times in TIMES.items()]


def commands() -> Iterator[Command]:
    """One command, or two: `x after y` asks for y first."""
    single = repeated()
    yield from single
    for first, first_actions in single:
        for second, second_actions in single:
            yield f"{first} and {second}", first_actions + second_actions
            yield f"{first} after {second}", second_actions + first_actions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pairs", type=int, help="training pairs; all that are left, if not given")
    parser.add_argument("--dev", type=int, default=500, help="dev pairs")
    parser.add_argument("--test", type=int, default=4182, help="test pairs, a fifth of all as in SCAN")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    pairs = list(commands())
    random.Random(options.seed).shuffle(pairs)
    held_out = options.dev + options.test
    if held_out + (options.pairs or 1) > len(pairs):
        raise SystemExit(f"the grammar has {len(pairs):,} commands; ask for fewer pairs")
    end = None if options.pairs is None else held_out + options.pairs
    parts = {"dev": pairs[: options.dev], "test": pairs[options.dev : held_out], "train": pairs[held_out:end]}
    options.folder.mkdir(parents=True, exist_ok=True)
    for name, part in parts.items():
        lines = "".join(f"{text}\t{' '.join(actions)}\n" for text, actions in part)
        (options.folder / f"{name}.tsv").write_text(lines, encoding="utf-8")


if __name__ == "__main__":
    main()

"""Write stories with a question that needs one or two of their sentences (as tasks 1 and 2 of bAbI).

    python examples/make_two_facts.py toy/two-facts

makes `train.tsv` and `dev.tsv` (story and question, tab, answer). With --facts 2, it takes two sentences to know where
an object is: who has it, and where this person went last.
"""

import argparse
import random
from pathlib import Path

PEOPLE = ["mary", "john", "sandra", "daniel"]
PLACES = ["kitchen", "garden", "office", "hallway", "bathroom", "bedroom"]
THINGS = ["milk", "football", "apple"]


def one_fact(draw: random.Random, sentences: int) -> tuple[str, str]:
    """Where is a person?"""
    story, where = [], dict[str, str]()
    for _ in range(sentences):
        person, place = draw.choice(PEOPLE), draw.choice(PLACES)
        where[person] = place
        story.append(f"{person} went to the {place} .")
    person = draw.choice(sorted(where))
    return " ".join([*story, f"where is {person} ?"]), where[person]


def two_facts(draw: random.Random, sentences: int) -> tuple[str, str]:
    """Where is an object that somebody carries?"""
    holder, thing = draw.choice(PEOPLE), draw.choice(THINGS)
    taken, story, place = draw.randrange(sentences - 1), [], ""
    moves = [draw.choice(PEOPLE) for _ in range(sentences)]
    moves[draw.randrange(taken + 1, sentences)] = holder  # after it was taken, at least one move of the holder
    for number, person in enumerate(moves):
        if number == taken:
            story.append(f"{holder} took the {thing} .")
            continue
        somewhere = draw.choice(PLACES)
        place = somewhere if person == holder else place
        story.append(f"{person} went to the {somewhere} .")
    return " ".join([*story, f"where is the {thing} ?"]), place


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--facts", type=int, choices=[1, 2], default=2)
    parser.add_argument("--pairs", type=int, default=10000, help="training pairs")
    parser.add_argument("--dev", type=int, default=500, help="dev pairs")
    parser.add_argument("--shortest", type=int, default=2, help="sentences of a story")
    parser.add_argument("--longest", type=int, default=8, help="sentences of a story")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    draw, write = random.Random(options.seed), one_fact if options.facts == 1 else two_facts
    options.folder.mkdir(parents=True, exist_ok=True)
    for name, count in (("dev", options.dev), ("train", options.pairs)):
        pairs = [write(draw, draw.randint(max(2, options.shortest), options.longest)) for _ in range(count)]
        lines = "".join(f"{text}\t{answer}\n" for text, answer in pairs)
        (options.folder / f"{name}.tsv").write_text(lines, encoding="utf-8")


if __name__ == "__main__":
    main()

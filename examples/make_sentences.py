"""Write sentences of a small grammar for language models, with labels and tags.

    python examples/make_sentences.py toy

makes `toy/texts.txt`, `toy/dev.txt` (a sentence a line), `toy/labels.tsv` (sentence, tab, label) and `toy/tags.tsv`
(sentence, tab, a tag for each word). It prints the lowest perplexity that a model of the grammar can have.
"""

import argparse
import math
import random
from pathlib import Path

SIZES, ANIMALS = ["big", "small", "red", "green"], {"cat": "pet", "dog": "pet", "bird": "wild"}
VERBS, PLACES = ["sees", "finds", "likes"], ["tree", "river", "house", "stone"]
KINDS = {"the": "D"} | dict.fromkeys(SIZES, "A") | dict.fromkeys([*ANIMALS, *PLACES], "N") | dict.fromkeys(VERBS, "V")


def sentences(count: int, seed: int) -> list[str]:
    """Every choice as likely as any other."""
    draw = random.Random(seed).choice
    animals = list(ANIMALS)
    return [f"the {draw(SIZES)} {draw(animals)} {draw(VERBS)} the {draw(PLACES)}" for _ in range(count)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--texts", type=int, default=2000)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    texts, dev = sentences(options.texts, 1), sentences(200, 2)
    labels = [f"{text}\t{ANIMALS[text.split()[2]]}" for text in texts]
    tags = [f"{text}\t{' '.join(KINDS[word] for word in text.split())}" for text in texts]
    for name, lines in (("texts.txt", texts), ("dev.txt", dev), ("labels.tsv", labels), ("tags.tsv", tags)):
        (options.folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    choices = len(SIZES) * len(ANIMALS) * len(VERBS) * len(PLACES)
    print(f"lowest perplexity of a word: {math.exp(math.log(choices) / 7):.3f}")


if __name__ == "__main__":
    main()

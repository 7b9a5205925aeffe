"""Write two tasks on real English sentences, such as those of Multi30k: which word is missing, and which articles are.

    python examples/make_cloze_data.py cloze --texts data/multi30k/train.en --dev data/multi30k/val.en

makes `who.tsv` (a sentence with `___` in the place of its first word for a person or a dog, tab, that word) and
`articles.tsv` (a sentence without its articles, tab, for each word the article that stood before it, or `-`), and the
same of the dev sentences as `who.dev.tsv` and `articles.dev.tsv`.

With `--facts`, also `who-facts.tsv` and `who-facts.dev.tsv`: the missing words as questions to a memory network, which
reads each word of a sentence as a fact, and the gap between its two neighbours as the question:

    a . ___ . sleeping . in . a . green . room . a ___ sleeping
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

WHO = ("man", "woman", "boy", "girl", "child", "person", "people", "men", "women", "children", "dog", "dogs")
ARTICLES = ("a", "an", "the")


def words_of(line: str) -> list[str]:
    """Without the full stop."""
    return line.rstrip(". \n").replace(",", " ,").split()


def gaps(lines: list[str]) -> Iterator[tuple[list[str], int, str]]:
    """The words of a sentence with `___` for one of them, its place, and the word."""
    for words in map(words_of, lines):
        place = next((place for place, word in enumerate(words) if word.lower() in WHO), None)
        if place is not None:
            yield [*words[:place], "___", *words[place + 1 :]], place, words[place].lower()


def missing_words(lines: list[str]) -> Iterator[str]:
    for words, _, word in gaps(lines):
        yield f"{' '.join(words)}\t{word}"


def missing_facts(lines: list[str]) -> Iterator[str]:
    for words, place, word in gaps(lines):
        facts, question = " . ".join(words), " ".join(words[max(place - 1, 0) : place + 2])
        yield f"{facts} . {question}\t{word}"


def missing_articles(lines: list[str]) -> Iterator[str]:
    for words in map(words_of, lines):
        kept, tags, before = [], [], "-"
        for word in words:
            if word.lower() in ARTICLES:
                before = word.lower()
            else:
                kept.append(word)
                tags.append(before)
                before = "-"
        if kept:
            yield f"{' '.join(kept)}\t{' '.join(tags)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--texts", type=Path, required=True, help="sentences to learn from, one a line")
    parser.add_argument("--dev", type=Path, required=True, help="sentences to measure by")
    parser.add_argument("--most", type=int, default=3000, help="sentences of the first file; few, so that texts help")
    parser.add_argument("--facts", action="store_true", help="also the missing words as questions to a memory network")
    options = parser.parse_args()
    tasks = {"who": missing_words, "articles": missing_articles}
    if options.facts:
        tasks["who-facts"] = missing_facts
    options.folder.mkdir(parents=True, exist_ok=True)
    train = options.texts.read_text(encoding="utf-8").splitlines()[: options.most]
    for name, lines in (("", train), (".dev", options.dev.read_text(encoding="utf-8").splitlines())):
        for task, make in tasks.items():
            rows = "".join(row + "\n" for row in make(lines))
            (options.folder / f"{task}{name}.tsv").write_text(rows, encoding="utf-8")


if __name__ == "__main__":
    main()

"""Answers typed words with pronunciations."""

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from qkv.demo.dictionary import read_cmudict
from qkv.demo.folder import SEARCH, DemoFolder
from qkv.text import SPECIAL
from qkv.translate.output import Translation
from qkv.translate.translator import Translator
from qkv.visual.alignment.text import BLOCKS, draw_alignment

LONGEST = 40
"""Letters of a word; the longest in the dictionary has 28."""
MARGIN = " " * 10
NOTHING = "(nothing)"


@dataclass(frozen=True)
class Screen:
    """What the picture may be made of."""

    shades: str = BLOCKS
    width: int = 80


class Desk:
    """Answers typed words: a trained model, the dictionary beside it, and the words that it learned from."""

    def __init__(self, place: DemoFolder, screen: Screen) -> None:
        # The engine that tells what each phoneme looked at; no other is worth starting for a word at a time.
        self.translator = Translator(place.run.path, engine="torch", search=SEARCH, workers=1)
        self.dictionary = read_cmudict()
        self.learned = place.learned()
        self.screen = screen

    def pronounce(self, words: Sequence[str]) -> list[Translation]:
        """The three best pronunciations of each word."""
        return self.translator.translate(words, nbest=3, alignment=True)

    def answer(self, line: str) -> list[str]:
        """The answer to a line of words."""
        return [shown for typed in line.split() for shown in self._answer_word(typed)]

    def _answer_word(self, typed: str) -> list[str]:
        word, unknown = self._readable(typed)
        if not word:
            return [f"{typed[:LONGEST]!r}: no letter of the dictionary is in it; type an English word"]
        if len(word) > LONGEST:
            return [f"{word[:LONGEST]}...: has {len(word):,} letters; type words of up to {LONGEST}"]
        found = self.pronounce([word])[0]
        left_out = f", without {' '.join(map(repr, unknown))}" if unknown else ""
        title = f"{word}{left_out}: {self._status(word)}"
        return [title, *guesses(found, self.dictionary.get(word, [])), *self.picture(found), ""]

    def _readable(self, typed: str) -> tuple[str, list[str]]:
        """The word as the dictionary would write it, and the letters and digits that had to be left out."""
        plain = unicodedata.normalize("NFKD", typed.replace("’", "'").casefold())
        letters = [letter for letter in plain if not unicodedata.combining(letter)]
        word = "".join(filter(self._knows, letters))
        # The end of a sentence is no part of its last word; but some abbreviations stand there with their point.
        word = word if word in self.dictionary else word.strip(".-")
        return word, [letter for letter in dict.fromkeys(letters) if letter.isalnum() and not self._knows(letter)]

    def _knows(self, letter: str) -> bool:
        return SPECIAL.unk not in self.translator.models.tokenizers.src.encode(letter)

    def _status(self, word: str) -> str:
        if word in self.learned:
            return "the model learned from this word"
        return f"{'in the dictionary, but' if word in self.dictionary else 'not in the dictionary,'} new to the model"

    def picture(self, found: Translation) -> list[str]:
        """Which letters each phoneme of the best output came from."""
        assert found.alignment is not None
        letters = found.src_tokens[:-1]
        weights = [row[: len(letters)] for row in found.alignment]
        width = self.screen.width - len(MARGIN)
        return [MARGIN + line for line in draw_alignment(found.tokens, letters, weights, self.screen.shades, width)]


def guesses(found: Translation, answers: Sequence[str]) -> list[str]:
    """The outputs with their probabilities, those of the dictionary marked; then what it says besides."""
    each = [found, *found.alternatives]
    texts = [one.text for one in each]
    missed = [answer for answer in answers if answer not in texts]
    width = max(map(len, [NOTHING, *texts, *missed]))
    lines = []
    for one in each:
        mark = "  = dictionary" if one.text in answers else ""
        lines.append(f"  {100 * math.exp(sum(one.token_scores)):5.1f} %  {one.text or NOTHING:{width}}{mark}".rstrip())
    return lines + [f"{MARGIN} {answer:{width}}    dictionary" for answer in missed]

"""Whether the first row of a table that should hold only pairs looks like the names of its columns."""

import re
from collections.abc import Sequence
from statistics import median

KNOWN = """
src tgt source target input output text texts sentence sentences line phrase word words token tokens original
translation translated question answer query response prompt completion command commands action actions label labels
class grapheme graphemes phoneme phonemes letters sounds spelling pronunciation ipa lemma form inflected article summary
document headline title plural singular features key value noisy clean wrong right
english german french spanish italian portuguese dutch russian ukrainian polish czech chinese japanese korean arabic
hebrew turkish hindi swedish danish norwegian finnish hungarian greek romanian latin
deutsch francais français espanol español italiano
eng deu ger fra fre spa ita por nld rus ukr pol ces zho jpn kor ara heb tur hin swe dan nor fin hun
"""
NAMES = frozenset(KNOWN.split())
"""Sides, units, tasks and languages."""
AMBIGUOUS = "ar bg cs da de el en es fi fr he hi hu id it ja ko la nl no pl pt ro ru sv tr uk x y zh"
CODES = frozenset(AMBIGUOUS.split())
"""Names that are also words ("no", "ja"): they count beside another name."""
IDENTIFIER = re.compile(r"[^\W\d]\w*(?:[ .-]\w+)?")
PARTS = re.compile(r"[\W_]+|(?<=[a-z])(?=[A-Z])|\d+")
LONGER = 3
"""Words of an ordinary text from which on a single lower-case word stands out."""


def looks_like_header(first: tuple[str, str], others: Sequence[tuple[str, str]]) -> bool:
    """Both sides are names, or could be and one certainly is, or single words stand above whole sentences."""
    cells = [cell.strip() for cell in first]
    if not all(IDENTIFIER.fullmatch(cell) for cell in cells):
        return False
    if any(_is_name(cell) for cell in cells) or all(cell.lower() in CODES for cell in cells):
        return not any(tuple(cells) == (src.strip(), tgt.strip()) for src, tgt in others)
    lengths = [median(len(pair[side].split()) for pair in others) if others else 0 for side in (0, 1)]
    return min(lengths) >= LONGER and all(cell.islower() and " " not in cell for cell in cells)


def _is_name(cell: str) -> bool:
    """A known name, or one made of known parts such as `src_text`, `text1` or `en_sentence`."""
    parts = [part.lower() for part in PARTS.split(cell) if part]
    return not NAMES.isdisjoint(parts) and (NAMES | CODES).issuperset(parts)

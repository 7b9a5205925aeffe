"""How well sentences are split: ours, sentencex and pysbd on sentences joined into paragraphs.

    pip install sentencex pysbd
    python benchmarks/sentence_boundaries.py FILE --language en [--sentences 20000]

FILE has one sentence per line. Eight at a time are joined by spaces; a boundary is right if a sentence ended there. A
line of several sentences counts against the precision of every tool alike. The time of qkv includes counting tokens.
"""

import argparse
import random
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from qkv.text import WhitespaceConfig
from qkv.translate.splitting import Known, Splitter

TOGETHER = 8
ENDS = ".!?…\"'”»)"


def tools(language: str) -> Iterator[tuple[str, Callable[[str], Sequence[str]]]]:
    """Name, and a function from a text to its sentences."""
    warnings.filterwarnings("ignore", category=SyntaxWarning)
    import pysbd
    import sentencex

    # A model that can read everything but knows only short texts: each sentence becomes a part.
    splitter = Splitter(WhitespaceConfig().train(["a"]), None, Known(2))
    yield "qkv", lambda text: splitter.split(text).parts
    yield "sentencex", lambda text: list(sentencex.segment(language, text))
    yield "pysbd", pysbd.Segmenter(language=language, clean=False).segment


def ends(parts: Sequence[str], text: str) -> set[int]:
    """Where the parts end in the text, the last one left out."""
    found, at = set(), 0
    for part in filter(None, map(str.strip, parts)):
        at = text.index(part, at) + len(part)
        found.add(at)
    return found - {len(text)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--language", default="en")
    parser.add_argument("--sentences", type=int, default=20_000)
    options = parser.parse_args()
    lines = [line.strip() for line in options.file.read_text(encoding="utf-8").splitlines()]
    lines = [line for line in lines if line.endswith(tuple(ENDS))]
    random.Random(1).shuffle(lines)
    lines = lines[: options.sentences]
    paragraphs = [lines[start : start + TOGETHER] for start in range(0, len(lines), TOGETHER)]
    for name, split in tools(options.language):
        right = wrong = missed = 0
        seconds = 0.0
        for paragraph in paragraphs:
            text = " ".join(paragraph)
            began = time.perf_counter()
            parts = split(text)
            seconds += time.perf_counter() - began
            found, wanted = ends(parts, text), ends(paragraph, text)
            right += len(found & wanted)
            wrong += len(found - wanted)
            missed += len(wanted - found)
        speed = sum(map(len, lines)) / seconds / 1e6
        print(
            f"{name:10} precision {100 * right / (right + wrong):.2f}  recall {100 * right / (right + missed):.2f}  "
            f"F1 {200 * right / (2 * right + wrong + missed):.2f}  {speed:.2f} million characters a second"
        )


if __name__ == "__main__":
    main()

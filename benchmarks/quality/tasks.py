"""What both systems learn: the same training pairs, the same dev pairs, the same metric."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import sentencepiece
from peers.pieces import write_pieces

from qkv.data.parts import text_hash
from qkv.evaluation.evaluate import evaluate_outputs
from qkv.evaluation.files import EvaluationSet, read_parallel, read_table
from qkv.evaluation.metrics.registry import choose_metrics

HELD_OUT = 40
"""One word of CMUdict in this many is a dev word: about 2,670, as many as papers hold out."""


@dataclass(frozen=True)
class Sizes:
    """The peer's model and batches: those of our recipe."""

    layers: int
    d_model: int
    d_ff: int
    dropout: float
    batch_tokens: int


@dataclass(frozen=True)
class Corpus:
    """Files for the peer, with spaces between tokens."""

    train_src: Path
    train_tgt: Path
    dev_src: Path
    vocabularies: tuple[Path, ...]
    """Of the source and the target; one if they share it."""


@dataclass(frozen=True)
class Task:
    """Data, sizes and the scores to reach."""

    recipe: str
    """The packaged recipe that ours is trained by."""
    settings: tuple[str, ...]
    """Overrides of the recipe: where the data is."""
    metric: str
    language: str | None
    marks: tuple[float, ...]
    """Scores whose time is measured, the easiest first."""
    every: int
    """Updates between two scores."""
    sizes: Sizes
    corpus: Corpus
    dev: EvaluationSet
    join: Callable[[str], str]
    """A text from the tokens of a peer's output line."""

    def score(self, lines: Sequence[str]) -> float:
        """The score of a peer's output for the dev sources."""
        (metric,) = choose_metrics([self.metric], self.language)
        found = evaluate_outputs([self.join(line) for line in lines], self.dev, [metric])
        return found.scores[0].value

    def reached(self, score: float, mark: float) -> bool:
        """WER falls, BLEU rises."""
        return score >= mark if self.marks[0] < self.marks[-1] else score <= mark


def multi30k(raw: Path, work: Path) -> Task:
    """English to German, lower-cased; the peer reads pieces of one SentencePiece model of 8,000."""
    work.mkdir(parents=True, exist_ok=True)
    for name in ("train.en", "train.de", "val.en", "val.de"):
        (work / name).write_text((raw / name).read_text(encoding="utf-8").lower(), encoding="utf-8")
    pieces = work / "pieces"
    model = write_pieces(work, pieces)
    return Task(
        recipe="multi30k-en-de",
        settings=(f"data.root={raw}",),
        metric="bleu_tok_lc",
        language="de",
        marks=(30, 35, 38, 40),
        every=234,
        sizes=Sizes(layers=4, d_model=128, d_ff=256, dropout=0.3, batch_tokens=4096),
        corpus=Corpus(pieces / "train.en", pieces / "train.de", pieces / "val.en", (pieces / "vocabulary.txt",)),
        dev=read_parallel([work / "val.de"], work / "val.en"),
        join=functools.partial(_join_pieces, sentencepiece.SentencePieceProcessor(model_file=str(model))),
    )


def cmudict(raw: Path, work: Path) -> Task:
    """Letters to phonemes, g014b2b; a word is in train or in dev, never in both."""
    pieces = work / "pieces"
    pieces.mkdir(parents=True, exist_ok=True)
    rows = [line.split("\t") for line in (raw / "g014b2b.train").read_text(encoding="utf-8").splitlines()]
    parts = {
        "train": [row for row in rows if text_hash(row[0]) % HELD_OUT],
        "dev": [row for row in rows if not text_hash(row[0]) % HELD_OUT],
    }
    for name, part in parts.items():
        (work / f"{name}.tsv").write_text("".join("\t".join(row) + "\n" for row in part), encoding="utf-8")
    dev = read_table(work / "dev.tsv")
    sides = {
        "train.src": [" ".join(word) for word, _ in parts["train"]],
        "train.tgt": [answer for _, answer in parts["train"]],
        "val.src": [" ".join(word) for word in dev.sources or []],
    }
    for name, lines in sides.items():
        (pieces / name).write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    for side in ("src", "tgt"):
        known = sorted({token for line in sides[f"train.{side}"] for token in line.split()})
        (pieces / f"vocabulary.{side}").write_text("".join(token + "\n" for token in known), encoding="utf-8")
    return Task(
        recipe="cmudict-g2p",
        settings=(
            f"data.root={work}",
            "data.train={kind: tsv, path: train.tsv}",
            "data.dev={kind: tsv, path: dev.tsv}",
            "data.holdout=null",
        ),
        metric="g2p_wer",
        language=None,
        marks=(35, 30, 25, 22),
        every=230,
        # Our recipe has no dropout, but Adam and sinusoidal positions were only tried with some.
        sizes=Sizes(layers=4, d_model=128, d_ff=512, dropout=0.1, batch_tokens=4096),
        corpus=Corpus(
            *(pieces / "train.src", pieces / "train.tgt", pieces / "val.src"),
            tuple(pieces / f"vocabulary.{side}" for side in ("src", "tgt")),
        ),
        dev=dev,
        join=str.strip,
    )


def _join_pieces(processor: sentencepiece.SentencePieceProcessor, line: str) -> str:
    return str(processor.decode(line.split()))


TASKS: dict[str, Callable[[Path, Path], Task]] = {"multi30k": multi30k, "cmudict": cmudict}

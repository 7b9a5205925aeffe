"""Text as the peers read it: cut beforehand by one SentencePiece model, tokens between spaces, one vocabulary."""

import collections
from pathlib import Path

import sentencepiece

PIECES = 8000


def write_pieces(raw: Path, data: Path) -> Path:
    """Write train and val as pieces, and the pieces that occur in train as the vocabulary; the path of the model."""
    model = data / "bpe.model"
    if (data / "vocabulary.txt").exists():
        return model
    data.mkdir(parents=True, exist_ok=True)
    sentencepiece.SentencePieceTrainer.train(
        input=[str(raw / "train.en"), str(raw / "train.de")],
        model_prefix=str(data / "bpe"),
        model_type="bpe",
        vocab_size=PIECES,
        character_coverage=1.0,
        minloglevel=2,
    )
    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    counts: collections.Counter[str] = collections.Counter()
    for name in ("train.en", "train.de", "val.en", "val.de"):
        lines = (raw / name).read_text(encoding="utf-8").removesuffix("\n").split("\n")
        pieces = processor.encode(lines, out_type=str)
        (data / name).write_text("".join(" ".join(line) + "\n" for line in pieces), encoding="utf-8")
        if name.startswith("train"):
            counts.update(piece for line in pieces for piece in line)
    (data / "vocabulary.txt").write_text("".join(piece + "\n" for piece, _ in counts.most_common()), encoding="utf-8")
    return model

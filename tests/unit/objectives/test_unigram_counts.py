"""How often each target token occurs in the training data."""

from pathlib import Path

import torch

from qkv.data.build import build_store
from qkv.data.readers import TextCorpus
from qkv.data.store import PairLimits, PairStore, tgt_frequencies
from qkv.text import SPECIAL, TokenizerPair, WhitespaceConfig


def test_targets_are_counted_with_their_ends(tmp_path: Path) -> None:
    """Sources do not count; a word outside the vocabulary counts as unknown."""
    pairs = [("s t", "x y x"), ("s", "x"), ("t", "z y")]
    for side, name in enumerate(("src", "tgt")):
        (tmp_path / name).write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8")
    tokenizers = TokenizerPair(WhitespaceConfig().train(["s t"]), WhitespaceConfig().train(["x y"]))
    corpus = TextCorpus(src=Path("src"), tgt=Path("tgt"))
    build_store(tmp_path / "store", [corpus], tmp_path, "error", PairLimits(256, 256), tokenizers)
    counts = tgt_frequencies(PairStore.open(tmp_path / "store"), tokenizers.tgt)
    wanted = torch.zeros(len(tokenizers.tgt))
    (x,), (y,) = tokenizers.tgt.encode("x"), tokenizers.tgt.encode("y")
    wanted[[x, y, SPECIAL.unk, SPECIAL.eos]] = torch.tensor([3.0, 2.0, 1.0, 3.0])
    assert torch.equal(counts, wanted.double())

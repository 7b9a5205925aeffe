"""Small corpora and tokenizers for the tests of qkv.data."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from qkv.data.build import build_store
from qkv.data.readers import TextCorpus
from qkv.data.store import PairLimits, PairStore
from qkv.text.folder import TokenizerPair
from qkv.text.whitespace import WhitespaceConfig

Pairs = Sequence[tuple[str, str]]
WriteText = Callable[[str, Pairs], TextCorpus]
MakeStore = Callable[..., PairStore]
WIDE = PairLimits(256, 256)


@pytest.fixture
def tokenizers() -> TokenizerPair:
    """Words w0 to w99 for the source, x0 to x99 for the target."""
    src = WhitespaceConfig().train([" ".join(f"w{i}" for i in range(100))])
    tgt = WhitespaceConfig().train([" ".join(f"x{i}" for i in range(100))])
    return TokenizerPair(src, tgt)


@pytest.fixture
def write_text(tmp_path: Path) -> WriteText:
    """Write pairs as NAME.src and NAME.tgt."""

    def write(name: str, pairs: Pairs) -> TextCorpus:
        for side, suffix in enumerate(("src", "tgt")):
            content = "".join(pair[side] + "\n" for pair in pairs)
            (tmp_path / f"{name}.{suffix}").write_bytes(content.encode())
        return TextCorpus(src=Path(f"{name}.src"), tgt=Path(f"{name}.tgt"))

    return write


@pytest.fixture
def make_store(tmp_path: Path, write_text: WriteText, tokenizers: TokenizerPair) -> MakeStore:
    """A store of the given pairs, one corpus."""

    def make(pairs: Pairs, name: str = "made", limits: PairLimits = WIDE) -> PairStore:
        corpus = write_text(name, pairs)
        build_store(tmp_path / f"{name}.store", [corpus], tmp_path, "error", limits, tokenizers)
        return PairStore.open(tmp_path / f"{name}.store")

    return make

"""Back-translation (Sennrich, Haddow and Birch 2016): a model of the opposite direction writes sources for given texts.

The targets of the new pairs are real, so a forward model learns from them what good outputs look like.

OUT/train.tgt            the given texts of the target side, one a line
OUT/train.src            what the reverse model says, line n for line n, perhaps after a tag
"""

import json
from pathlib import Path

from qkv.core.errors import DataError, UsageError
from qkv.core.progress import Reporter
from qkv.data.aligned import read_aligned, write_aligned
from qkv.translate.jobs.line_work import Chunks, LineWork
from qkv.translate.jobs.pair_folder import PREPARED, SRC, TGT, PairFolder
from qkv.translate.output import Formatter, Translation, plain
from qkv.translate.texts import DecodeOptions
from qkv.translate.translator import Translator

SYNTHETIC = PairFolder("synthetic pairs", "reverse model", given=TGT, written=SRC)


def backtranslate(
    translator: Translator,
    mono: Path,
    out: Path,
    tag: str | None,
    reporter: Reporter,
    restart: bool = False,
    chunks: Chunks | None = None,
) -> None:
    """Pair every line of `mono` with a source that `translator`, a model of the opposite direction, writes for it.

    If it is stopped at any time, calling it again in the same way resumes it. `tag` is put before every new source.
    `chunks` is what translates, if it is not this machine.
    """
    formatter = plain if tag is None else tagged(tag)
    with SYNTHETIC.at_work_on(out):
        if not write_aligned(read_aligned(mono, None), (out / PREPARED / TGT,)):
            raise DataError(f"{mono}: is empty; give a file with at least one text")
        work = LineWork(translator, DecodeOptions(1, token_scores=False), formatter, str(mono), reporter, chunks)
        SYNTHETIC.translate(out, work, {"input": TGT}, restart)


def tagged(tag: str) -> Formatter:
    """Tagged back-translation (Caswell, Chelba and Grangier 2019): the model can tell synthetic sources from real ones.

    The tag is one word.
    """
    if tag.split() != [tag]:
        raise UsageError(f"--tag {tag!r}: must be one word, such as ¤, that no real source contains")

    def with_tag(number: int, translation: Translation) -> str:
        return f"{tag} {plain(number, translation)}"

    with_tag.__name__ = f"tag {tag}"  # part of what identifies a job
    return with_tag


def as_corpus(out: Path) -> str:
    """The item of `data.train` that stands for the pairs in `out`."""
    src, tgt = (json.dumps(str(out.resolve() / name), ensure_ascii=False) for name in (SRC, TGT))
    return f"- {{kind: text, src: {src}, tgt: {tgt}}}"

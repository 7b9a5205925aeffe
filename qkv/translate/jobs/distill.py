"""Sequence-level distillation (Kim and Rush 2016): each target is replaced by argmax_Y p_teacher(Y | X), as far as the
search finds it. A student that learns from these targets has fewer alternatives to model.

OUT/train.src            the sources, one a line
OUT/train.tgt            what the teacher says, line n for line n
OUT/train.ref            the targets that were replaced, if they are known
OUT/dev.src, dev.tgt     real pairs that the recipe holds out of its training data, if it does so
"""

import json
from pathlib import Path

from qkv.core.errors import DataError, UsageError
from qkv.core.progress import Reporter
from qkv.data.aligned import read_aligned, stored_pairs, write_aligned
from qkv.data.config import PairsConfig
from qkv.data.parts import data_parts
from qkv.data.prepare import prepare_data
from qkv.translate.closest import closest_to
from qkv.translate.jobs.line_work import Chunks, LineWork
from qkv.translate.jobs.pair_folder import PREPARED, SRC, TGT, PairFolder
from qkv.translate.output import plain
from qkv.translate.texts import DecodeOptions
from qkv.translate.translator import Translator

REF, DEV_SRC, DEV_TGT = "train.ref", "dev.src", "dev.tgt"
STORES = "stores"
DISTILLED = PairFolder("distilled data", "teacher", given=SRC, written=TGT, beside=(REF, DEV_SRC, DEV_TGT))


def prepare_recipe(data: PairsConfig, translator: Translator, out: Path, reporter: Reporter) -> None:
    """The pairs that training would take, by the teacher's tokenizers; and the pairs that the recipe holds out."""
    if len({corpus.weight for corpus in data.train}) > 1:
        raise UsageError("data.train has corpora of different weight, which one file cannot keep: distil one at a time")
    prepared = out / PREPARED
    parts = data_parts(data, reporter.counting("Reading"))
    wanted = {name: part for name, part in parts.items() if name == "train" or data.holdout is not None}
    stores = prepare_data(
        data, wanted, translator.models.tokenizers, prepared / STORES, reporter.counting("Preparing pairs")
    )
    for line in stores["train"].report.lines():
        reporter.say(line)
    for name, files in (("train", (SRC, REF)), ("dev", (DEV_SRC, DEV_TGT))):
        if name in stores:
            write_aligned(stored_pairs(stores[name]), tuple(prepared / file for file in files))


def prepare_files(src: Path, tgt: Path | None, out: Path) -> None:
    """Every line of a file, and the targets that belong to them, if there are any."""
    names = (SRC,) if tgt is None else (SRC, REF)
    if not write_aligned(read_aligned(src, tgt), tuple(out / PREPARED / name for name in names)):
        raise DataError(f"{src}: is empty; give a file with at least one text")


def distill(
    translator: Translator,
    out: Path,
    closest: int | None,
    reporter: Reporter,
    restart: bool = False,
    chunks: Chunks | None = None,
) -> None:
    """Translate what is prepared in `out`; see `PairFolder.translate`.

    `closest`: of this many outputs of the teacher, take the one closest to the target.
    `chunks` is what translates, if it is not this machine.
    """
    if closest and not (out / PREPARED / REF).exists():
        raise UsageError("to take the output closest to the target, the targets are needed: give --tgt or --data")
    formatter = closest_to(out / REF, translator.models.tokenizers.tgt) if closest else plain
    options = DecodeOptions(closest or 1, token_scores=False)
    work = LineWork(translator, options, formatter, str(out / SRC), reporter, chunks)
    read = {"input": SRC} | ({"references": REF} if closest else {})
    DISTILLED.translate(out, work, read, restart)


def as_recipe(out: Path) -> str:
    """The lines of a recipe that learns from what is in `out`."""
    held_out = f"\n  dev: {{kind: text, src: {DEV_SRC}, tgt: {DEV_TGT}}}" if (out / DEV_SRC).exists() else ""
    return f"data:\n  root: {json.dumps(str(out))}\n  train: {{kind: text, src: {SRC}, tgt: {TGT}}}{held_out}"

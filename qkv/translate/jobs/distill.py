"""Sequence-level distillation (Kim and Rush 2016): each target is replaced by argmax_Y p_teacher(Y | X), as far as the
search finds it. A student that learns from these targets has fewer alternatives to model.

OUT/train.src            the sources, one a line
OUT/train.tgt            what the teacher says, line n for line n
OUT/train.ref            the targets that were replaced, if they are known
OUT/dev.src, dev.tgt     real pairs that the recipe holds out of its training data, if it does so
OUT/manifest.json        teacher, settings, SHA-256 of every file; written last, so only what is complete has one
OUT/prepared             while the job runs: the data before it is translated
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from qkv.core.errors import CorruptFolder, DataError, QkvError, UsageError
from qkv.core.files import MANIFEST, read_manifest, verify_folder, write_manifest
from qkv.core.outputs import MARKER, claim_folder, mark_folder, read_marker
from qkv.core.progress import Reporter
from qkv.core.temporary import is_unique_name
from qkv.data.aligned import read_aligned, stored_pairs, write_aligned
from qkv.data.config import DataConfig
from qkv.data.parts import data_parts
from qkv.data.prepare import prepare_data
from qkv.data.texts import survey
from qkv.translate.closest import closest_to
from qkv.translate.jobs.job import locked
from qkv.translate.jobs.line_work import LineWork, read_sources
from qkv.translate.output import plain
from qkv.translate.texts import DecodeOptions
from qkv.translate.translator import Translator

WHAT = "distilled data"
SRC, TGT, REF, DEV_SRC, DEV_TGT = "train.src", "train.tgt", "train.ref", "dev.src", "dev.tgt"
PREPARED, STORES, LOCK = "prepared", "stores", "lock"
MOVED = (SRC, REF, DEV_SRC, DEV_TGT)
"""First written to OUT/prepared."""
OURS = {SRC, TGT, REF, DEV_SRC, DEV_TGT, PREPARED, MANIFEST, MARKER, f"{TGT}.part", f"{TGT}.journal"}
"""Everything that OUT may contain, besides temporary files."""


def prepare_recipe(data: DataConfig, translator: Translator, out: Path, reporter: Reporter) -> None:
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


@contextmanager
def at_work_on(out: Path) -> Iterator[None]:
    """Lock `out`, which is new or was created by this program, for this process."""
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out}: is not a folder; choose another name")
    names = sorted(path.name for path in out.iterdir()) if out.exists() else []
    if others := [name for name in names if name not in OURS and not is_unique_name(name)]:
        raise UsageError(f"{out}: holds other files already ({others[0]}); choose a new folder")
    if not read_marker(out) and _was_begun_before_markers(out):
        mark_folder(out, WHAT, OURS)
    claim_folder(out, WHAT, OURS, "choose a new folder")
    try:
        (out / PREPARED).mkdir(exist_ok=True)
    except OSError as error:
        raise QkvError(f"{out}: cannot be written ({error.strerror})") from error
    with locked(out / PREPARED / LOCK):
        for name in MOVED:  # of an attempt that was refused
            (out / PREPARED / name).unlink(missing_ok=True)
        yield


def _was_begun_before_markers(out: Path) -> bool:
    try:
        return (out / PREPARED / LOCK).is_file() or read_manifest(out).get("what") == WHAT
    except CorruptFolder:
        return False


def distill(translator: Translator, out: Path, closest: int | None, reporter: Reporter, restart: bool = False) -> None:
    """Translate what is prepared in `out`, which this process is `at_work_on`. If it is stopped at any time, calling it
    again in the same way resumes it.

    `closest`: of this many outputs of the teacher, take the one closest to the target.
    """
    prepared = out / PREPARED
    if closest and not (prepared / REF).exists():
        raise UsageError("to take the output closest to the target, the targets are needed: give --tgt or --data")
    formatter = closest_to(out / REF, translator.models.tokenizers.tgt) if closest else plain
    work = LineWork(translator, DecodeOptions(closest or 1, token_scores=False), formatter, str(out / SRC), reporter)
    files = {"input": SRC} | ({"references": REF} if closest else {})
    identity = work.identity({name: survey(prepared / file) for name, file in files.items()})
    about = {"what": WHAT, "teacher": identity.pop("model"), **identity}
    if not restart and (out / MANIFEST).exists():
        _require_same(about, out)
        reporter.say(f"{out}: is complete already")
    else:
        (out / MANIFEST).unlink(missing_ok=True)
        for name in MOVED:
            if (prepared / name).exists():
                (prepared / name).replace(out / name)
            else:  # of an abandoned job with other data
                (out / name).unlink(missing_ok=True)
        paths = {name: out / file for name, file in files.items()}
        work.to_file(read_sources(out / SRC, None, "error"), out / TGT, paths, restart)
    shutil.rmtree(prepared)
    if not (out / MANIFEST).exists():
        write_manifest(out, about)


def _require_same(about: dict[str, Any], out: Path) -> None:
    """Existing data must equal what would be written."""
    there = verify_folder(out)
    if differs := [key for key in about if there.get(key) != about[key]]:
        shutil.rmtree(out / PREPARED)
        raise UsageError(
            f"{out}: holds data with another {' and another '.join(differs)}; choose a new folder, or give --restart"
        )


def as_recipe(out: Path) -> str:
    """The lines of a recipe that learns from what is in `out`."""
    held_out = f"\n  dev: {{kind: text, src: {DEV_SRC}, tgt: {DEV_TGT}}}" if (out / DEV_SRC).exists() else ""
    return f"data:\n  root: {json.dumps(str(out))}\n  train: {{kind: text, src: {SRC}, tgt: {TGT}}}{held_out}"

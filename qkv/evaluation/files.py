"""A test set in files: sources, right answers, outputs; one text a line, and line n belongs to line n."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from qkv.data.lines import ReadCounts, byte_lines, decode
from qkv.errors import DataError, UsageError
from qkv.evaluation.metrics import group_by_source


@dataclass(frozen=True)
class EvaluationSet:
    """What is asked, and what is right."""

    name: str
    """The file of the references: what the number of lines is held against."""
    references: list[list[str]]
    sources: list[str] | None = None
    lines: list[int] | None = None
    """For a table: which of the distinct sources each of its lines is about."""

    def __len__(self) -> int:
        return len(self.references)

    def usual_metrics(self, language: str | None) -> list[str]:
        """What is measured when nobody says: error rates for a table, as of letter-to-sound; else translation."""
        if self.lines is not None:
            return ["g2p_wer", "per"]
        return ["bleu", "chrf", "ter", *(["bleu_tok_lc"] if language else [])]


def read_lines(path: Path) -> list[str]:
    """The texts of a file, which must have at least one."""
    texts = list(_texts(path))
    if not texts:
        raise DataError(f"{path}: is empty; give a file with one text a line")
    return texts


def _texts(path: Path) -> Iterator[str]:
    for line, raw in enumerate(byte_lines(path), start=1):
        text = decode(raw, path, line, "error", ReadCounts(), "give a text file, one text a line")
        assert text is not None
        yield text


def read_parallel(references: Sequence[Path], source: Path | None = None) -> EvaluationSet:
    """One or more files of references, and the sources if they are known.

    Where one file of references has an empty line and another has not, there is one right answer less.
    """
    columns = [read_lines(path) for path in references]
    for path, column in zip(references[1:], columns[1:], strict=True):
        _require_same(path, column, references[0], len(columns[0]))
    sources = None if source is None else read_lines(source)
    if source is not None and sources is not None:
        _require_same(source, sources, references[0], len(columns[0]))
    answers = [[text for text in row if text.strip()] or [row[0]] for row in zip(*columns, strict=True)]
    return EvaluationSet(str(references[0]), answers, sources)


def read_table(path: Path) -> EvaluationSet:
    """Lines of source, tab, target; lines with the same source are several right answers to one question."""
    pairs = list(_columns(path))
    if not pairs:
        raise DataError(f"{path}: is empty; give source, tab, target on every line")
    return set_of_pairs(str(path), pairs)


def set_of_pairs(name: str, pairs: Sequence[tuple[str, str]]) -> EvaluationSet:
    """Of sources and targets; those of the same source are several right answers to one question."""
    sources, answers = group_by_source([src for src, _ in pairs], [tgt for _, tgt in pairs])
    place = {source: number for number, source in enumerate(sources)}
    return EvaluationSet(name, answers, sources, [place[src] for src, _ in pairs])


def _columns(path: Path) -> Iterator[tuple[str, str]]:
    for line, text in enumerate(_texts(path), start=1):
        columns = text.split("\t")
        if len(columns) < 2:
            raise DataError(f"{path}:{line}: has no tab; give source, tab, target on every line")
        yield columns[0], columns[1]


def read_evaluation_set(references: Sequence[Path], source: Path | None, table: Path | None) -> EvaluationSet:
    """From `--ref` (and `--src`) or from `--tsv`."""
    if table is not None and (references or source is not None):
        raise UsageError("--tsv holds both sides: give it alone, or give --ref and --src")
    if table is not None:
        return read_table(table)
    if not references:
        raise UsageError("nothing to compare with: give the right answers by --ref FILE, or both sides by --tsv FILE")
    return read_parallel(references, source)


def read_outputs(path: Path, test: EvaluationSet) -> list[str]:
    """A line for each question; for a table, a line for each of its lines will do as well."""
    outputs = read_lines(path)
    if test.lines is None or len(outputs) == len(test):
        _require_same(path, outputs, test.name, len(test))
        return outputs
    if len(outputs) != len(test.lines):
        raise DataError(
            f"{path}: has {len(outputs):,} lines, but {test.name} has {len(test.lines):,} lines with {len(test):,} "
            "different sources; give an output for each line, or for each source once"
        )
    chosen: dict[int, tuple[int, str]] = {}
    for line, (question, output) in enumerate(zip(test.lines, outputs, strict=True), start=1):
        first, before = chosen.setdefault(question, (line, output))
        if before != output:
            raise DataError(f"{path}:{line}: differs from line {first}, although both have the same source")
    return [chosen[question][1] for question in range(len(test))]


def training_targets(path: Path, test: EvaluationSet) -> Iterator[str]:
    """Texts to count words in: the second column where the test set is a table, else whole lines."""
    return _texts(path) if test.lines is None else (target for _, target in _columns(path))


def _require_same(path: Path, texts: Sequence[str], other: Path | str, wanted: int) -> None:
    if len(texts) != wanted:
        raise DataError(
            f"{path}: has {len(texts):,} lines, but {other} has {wanted:,}; line n of one must belong to line n of "
            "the other"
        )

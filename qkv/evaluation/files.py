"""Reads test sets: sources, references and outputs, from corpora and from files with one text a line."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from qkv.core.errors import ArgumentError, DataError, UsageError
from qkv.data.lines import Policy, ReadCounts
from qkv.data.readers import CorpusConfig, TsvCorpus
from qkv.data.readers.named import corpus_of, names_corpus
from qkv.data.readers.table import LOOKED_AT, TableCorpus, looks_like_header
from qkv.data.texts import read_texts
from qkv.evaluation.metrics.base import Metric
from qkv.evaluation.metrics.registry import group_by_source
from qkv.text.given import require_list, type_name


@dataclass(frozen=True)
class EvaluationSet:
    """Sources and their references."""

    name: str
    """The file of the references, named in messages about the number of lines."""
    references: list[list[str]]
    sources: list[str] | None = None
    lines: list[int] | None = None
    """Where pairs with the same source are one question: which of the distinct sources each pair is about."""
    files: tuple[Path, ...] = ()
    """What was read."""
    language: str | None = None
    """That of the references, where a recipe says it."""
    remarks: tuple[str, ...] = ()
    """Warnings about the file."""

    def __len__(self) -> int:
        return len(self.references)


def require_measurable(test: EvaluationSet, metrics: Sequence[Metric]) -> None:
    """Reject references or names given in place of the objects made from them."""
    if not isinstance(test, EvaluationSet):
        raise ArgumentError(
            f'test: must be an EvaluationSet, not {type_name(test)}; write EvaluationSet("name", [[answer], ...])'
        )
    require_list("metrics", metrics, "metrics")
    for number, metric in enumerate(metrics):
        if not isinstance(metric, Metric):
            raise ArgumentError(
                f"metrics[{number}]: must be a Metric, not {type_name(metric)}; write choose_metrics([name, ...])"
            )


def read_lines(path: Path) -> list[str]:
    """The texts of a file, which must have at least one."""
    texts = list(read_texts(path))
    if not texts:
        raise DataError(f"{path}: is empty; give a file with one text a line")
    return texts


def read_parallel(references: Sequence[Path], source: Path | None = None) -> EvaluationSet:
    """One or more files of references, and the sources if they are known.

    Where one file of references has an empty line and another has not, there is one reference less.
    """
    columns = [read_lines(path) for path in references]
    for path, column in zip(references[1:], columns[1:], strict=True):
        _require_same(path, column, references[0], len(columns[0]))
    sources = None if source is None else read_lines(source)
    if source is not None and sources is not None:
        _require_same(source, sources, references[0], len(columns[0]))
    answers = [[text for text in row if text.strip()] or [row[0]] for row in zip(*columns, strict=True)]
    files = (*references, *([] if source is None else [source]))
    return EvaluationSet(str(references[0]), answers, sources, files=files)


def read_corpus(corpus: CorpusConfig, root: Path = Path("."), invalid: Policy = "error") -> EvaluationSet:
    """The pairs of a corpus, whatever its kind."""
    files = tuple(root / path for path in corpus.files().values())
    name = corpus.describe(root)
    pairs = [(pair.src, pair.tgt) for pair in corpus.pairs_of(root, invalid, ReadCounts())]
    if not corpus.groups_answers:
        return EvaluationSet(name, [[tgt] for _, tgt in pairs], [src for src, _ in pairs], files=files)
    return replace(set_of_pairs(name, pairs), files=files, remarks=tuple(header_remarks(corpus, name, pairs)))


def header_remarks(corpus: CorpusConfig, name: str, pairs: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Whether the first pair may be a header; from the pairs that were read, as a pipe can be read only once."""
    if not (isinstance(corpus, TableCorpus) and corpus.header_in_doubt):
        return
    if looks_like_header(pairs[0], pairs[1:LOOKED_AT]):
        yield (
            f"{name}:1 looks like names of columns and is scored as a pair: give --data '{{kind: tsv, path: {name}, "
            "header: true}' to skip it, or header: false if it is a pair"
        )


def set_of_pairs(name: str, pairs: Iterable[tuple[str, str]]) -> EvaluationSet:
    """Each source once with all of its references; empty lines between pairs are skipped."""
    kept = [(src, tgt) for src, tgt in pairs if src.strip() or tgt.strip()]
    if not kept:
        raise DataError(f"{name}: holds only empty pairs; give a file with at least one")
    sources, answers = group_by_source([src for src, _ in kept], [tgt for _, tgt in kept])
    place = {source: number for number, source in enumerate(sources)}
    return EvaluationSet(name, answers, sources, [place[src] for src, _ in kept])


def read_table(path: Path) -> EvaluationSet:
    """Lines of source, tab, target, whatever the file is called."""
    return read_corpus(TsvCorpus(path=path))


def read_evaluation_set(
    references: Sequence[Path], source: Path | None, table: Path | None, data: str | None = None
) -> EvaluationSet:
    """From `--ref` (and `--src`), from `--tsv`, or from `--data`."""
    ways = [table is not None, data is not None, bool(references) or source is not None]
    if sum(ways) > 1:
        raise UsageError("--data and --tsv hold both sides: give one of them alone, or give --ref and --src")
    if data is not None:
        return read_corpus(corpus_of(data))
    if table is not None:
        return read_table(table)
    if not references:
        raise UsageError("nothing to compare with: give the references by --ref FILE, or both sides by --data FILE")
    return read_parallel(references, source)


def read_outputs(path: Path, test: EvaluationSet) -> list[str]:
    """A line for each question; where pairs were grouped by source, a line for each of the pairs will do as well."""
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


def training_targets(given: str, test: EvaluationSet) -> Iterator[str]:
    """Texts to count words in: the targets of a corpus, or the lines of a text file.

    A file whose name does not say what it is holds pairs with a tab if the test set is a table.
    """
    if names_corpus(given):
        corpus = corpus_of(given)
    elif test.lines is not None:
        corpus = TsvCorpus(path=Path(given))
    else:
        return read_texts(Path(given))
    return (pair.tgt for pair in corpus.read(Path("."), "error", ReadCounts()))


def _require_same(path: Path, texts: Sequence[str], other: Path | str, wanted: int) -> None:
    if len(texts) != wanted:
        raise DataError(
            f"{path}: has {len(texts):,} lines, but {other} has {wanted:,}; line n of one must belong to line n of "
            "the other"
        )

"""Translates the lines of a file or a stream: straight to stdout, or as a job that can be resumed."""

import os
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from importlib.metadata import version
from itertools import chain, islice, starmap
from pathlib import Path
from typing import Any

from qkv.core.progress import Reporter
from qkv.data.texts import STDIN, Invalid, Survey, count_ahead, paired, read_texts, stream_texts, survey
from qkv.engines.alignments import AlignmentHead
from qkv.text.unknown.count import UnknownCount
from qkv.translate.jobs.job import open_job
from qkv.translate.output import Formatter, LongLines, PassCount, Translation
from qkv.translate.texts import DecodeOptions, SourceText
from qkv.translate.translator import CHUNK, Translator

Chunks = Callable[[Iterable[SourceText], DecodeOptions, int], Generator[list[Translation]]]
"""As `Translator.chunks`."""


@dataclass(frozen=True)
class LineWork:
    """A translator and the format of its output."""

    translator: Translator
    options: DecodeOptions
    formatter: Formatter
    name: str
    """Of the input, for messages."""
    reporter: Reporter
    chunks: Chunks | None = None
    """What translates chunk after chunk; None: the translator, on this machine."""

    def to_stdout(self, sources: Iterable[SourceText], path: Path | None) -> None:
        """`path` is where the sources come from; None: standard input, where a terminal is answered line by line."""
        if path is None and sys.stdin.isatty():
            for number, source in enumerate(sources, start=1):
                decoder = self.translator.compared(self.options, [source])
                _write_out(self.formatter(number, decoder([source])[0]).encode())
            return
        total = survey(path).lines if path else count_ahead(sys.stdin.buffer)
        for text, _ in self._pieces(sources, 0, total):
            _write_out(text)

    def to_file(self, sources: Iterable[SourceText], output: Path, files: dict[str, Path], restart: bool) -> None:
        """Run as a job. `files` are what the sources come from, the lines to translate first."""
        read = {name: survey(path) for name, path in files.items()}
        # The first lines decide the engine, so that a resumed job uses the one it started with.
        rest = iter(sources)
        first = list(islice(rest, CHUNK))
        self.translator.compared(self.options, first)
        with open_job(output, self.identity(read), restart) as job:
            if job.finished:
                self.reporter.say(f"{output}: is complete already")
            else:
                if job.lines:
                    self.reporter.say(f"{output}: resuming after line {job.lines:,}")
                left = islice(chain(first, rest), job.lines, None)
                for text, lines in self._pieces(left, job.lines, next(iter(read.values())).lines):
                    job.commit(text, lines)
            job.finish()

    def _pieces(self, sources: Iterable[SourceText], start: int, total: int | None) -> Iterator[tuple[bytes, int]]:
        """Yields the output of some lines at a time, and their number."""
        counting = self.reporter.counting("Translating")
        long = LongLines(self.name, self.translator.search, self.reporter.say)
        passes = PassCount()
        unknown = UnknownCount()
        done = start
        counting(done, total)
        translate = self.chunks or self.translator.chunks
        with closing(translate(sources, self.options, start)) as chunks:
            for chunk in chunks:
                long.look(done + 1, chunk)
                passes.look(chunk)
                unknown.add(one.unknown for one in chunk)
                text = "".join(self.formatter(number, one) for number, one in enumerate(chunk, start=done + 1))
                yield text.encode(), len(chunk)
                done += len(chunk)
                counting(done, total)
        long.close()
        if unknown.texts:
            self.reporter.say(f"{self.name}: {unknown.texts:,} of {done - start:,} lines {unknown.remark}")
        if self.translator.draft is not None and passes.lines:
            self.reporter.say(passes.told())

    def identity(self, read: dict[str, Survey]) -> dict[str, Any]:
        """Everything that the output depends on, under names that fit after "another"."""
        translator, options = self.translator, self.options
        decoder = translator.decoder(options)
        return {
            **{name: file.sha256 for name, file in read.items()},
            "model": translator.checksums,
            # The rescoring model is identified under "model", not by its path, whose contents may change.
            "search": translator.search.model_dump(mode="json", exclude={"rescore"}),
            "limit": [decoder.batch_tokens, asdict(decoder.reading)],
            "engine": decoder.engine.name,
            **({} if (precision := translator.engines.settings.precision) == "fp32" else {"precision": precision}),
            "form of output": [self.formatter.__name__, options.nbest, _plain(options.alignment)],
            "version of qkv": version("qkv"),
        }


def read_sources(path: Path | None, prefixes: Path | None, invalid: Invalid) -> Iterator[SourceText]:
    """The lines of a file, or of standard input, with the prefixes that belong to them."""
    texts = read_texts(path, invalid) if path else stream_texts(sys.stdin.buffer, invalid)
    if prefixes is None:
        return map(SourceText, texts)
    return starmap(SourceText, paired(texts, read_texts(prefixes, invalid), (path or STDIN, prefixes)))


def _plain(alignment: bool | AlignmentHead) -> bool | list[int]:
    """As JSON reads it back."""
    return list(alignment) if isinstance(alignment, AlignmentHead) else alignment


def _write_out(content: bytes) -> None:
    """Write to standard output unbuffered, so that nothing can fail later."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(sys.stdout.fileno(), rest) :]

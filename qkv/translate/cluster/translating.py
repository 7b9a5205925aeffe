"""Translation by actors: the texts of files in shards, or of any source in chunks whose translations come back.

Both take `CHUNK` texts at a time from the start of the input, as one process does, so that the output is the same.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from qkv.core.errors import QkvError, UsageError
from qkv.core.progress import Counting
from qkv.data.batching import in_chunks
from qkv.models.saved.locate import locate_model
from qkv.translate.cluster.actors import in_actors
from qkv.translate.cluster.connection import Cluster, connected, require_ray
from qkv.translate.cluster.formats import Columns, RowResult
from qkv.translate.cluster.inputs import TEXT
from qkv.translate.cluster.job import Do, JobOptions, file_job
from qkv.translate.cluster.shipped import ShippedFolder, paths_in, relocated, ship
from qkv.translate.jobs.job import GO_ON
from qkv.translate.jobs.line_work import Chunks, LineWork
from qkv.translate.jobs.worker import Setup
from qkv.translate.output import Formatter, Translation, as_json, plain
from qkv.translate.texts import DecodeOptions, SourceText, TextDecoder
from qkv.translate.translator import CHUNK, Translator

Numbered = tuple[int, list[SourceText]]
Answer = tuple[int, list[Translation] | QkvError]


@dataclass(frozen=True)
class ShippedDecoder:
    """What an actor on any machine needs to decode as this process does."""

    setup: Setup
    folders: Sequence[ShippedFolder]
    others: Mapping[Path, ShippedFolder]
    """The models that draft or rescore, by the paths that the search has for them."""

    @property
    def gpu(self) -> bool:
        """Whether an actor needs one of what Ray counts as GPUs."""
        return self.setup.device in ("cuda", "xpu")

    def open(self) -> TextDecoder:
        import torch

        from qkv.kernels.memory import keep_freed_memory

        keep_freed_memory()
        torch.set_num_threads(1)
        # A search reads them whenever it is built for another request.
        search = relocated(self.setup.search, {path: folder.kept() for path, folder in self.others.items()})
        with ExitStack() as stack:
            folders = [stack.enter_context(folder.here()) for folder in self.folders]
            return replace(self.setup, folders=folders, search=search).open()

    def open_chunks(self) -> Callable[[Numbered], Answer]:
        decoder = self.open()

        def translate(chunk: Numbered) -> Answer:
            number, sources = chunk
            try:
                return number, decoder(sources)
            except QkvError as error:
                return number, error

        return translate


def shipped_decoder(translator: Translator, options: DecodeOptions) -> ShippedDecoder:
    """With the engine and the kind of device that `translator` has chosen by now. Ray shows an actor one GPU only."""
    engine, device = translator.decoder(options).engine.name, translator.models.device.type
    setup = replace(translator.worker_setup(options), engine=engine, device=device)
    others = paths_in(setup.search)
    shipped = ship([locate_model(path) for path in others])
    return ShippedDecoder(setup, ship(translator.models.folders), dict(zip(others, shipped, strict=True)))


@dataclass(frozen=True)
class Translating:
    """The work of `qkv translate` on files."""

    decoder: ShippedDecoder
    formatter: Formatter
    verb: str = "Translating"
    at_once: int = CHUNK

    @property
    def gpu(self) -> bool:
        return self.decoder.gpu

    @property
    def columns(self) -> Columns:
        return {"translation": "string", "score": "double"}

    def open(self) -> Do:
        decoder = self.decoder.open()

        def translate(texts: Sequence[str], numbers: Sequence[int]) -> list[RowResult]:
            found = decoder([SourceText(text) for text in texts])
            return [self._result(number, one) for number, one in zip(numbers, found, strict=True)]

        return translate

    def _result(self, number: int, one: Translation) -> RowResult:
        said = {"were cut": one.truncated, "were translated in parts": one.parts > 1, "have unknown words": one.unknown}
        columns = {"translation": one.text, "score": one.score}
        return RowResult(self.formatter(number, one), columns, tuple(remark for remark, true in said.items() if true))


def translate_files(
    on: str, workers: int | None, work: LineWork, source: str, output: str, options: JobOptions, restart: bool
) -> None:
    """Translate the files that `source` names into the folder `output`; if it is stopped, the same call resumes it."""
    require_ray(on)
    ending = ".jsonl" if work.formatter is as_json else ".txt"
    job = file_job(source, output, ending, options, work.reporter)
    if job.inputs.form != TEXT and work.formatter is not plain:
        raise UsageError(
            f"{source}: JSON lines and Parquet get the columns translation and score; leave out --json, --nbest, "
            "--scores and --alignment"
        )
    # The first texts decide the engine, as in one process.
    work.translator.compared(work.options, [SourceText(text) for text in job.first_texts(CHUNK)])
    identity = {**work.identity({}), "column": options.column, "handling of invalid UTF-8": options.invalid}
    with connected(on, workers) as cluster:
        translating = Translating(shipped_decoder(work.translator, work.options), work.formatter)
        job.run(cluster, translating, identity, restart, work.reporter)


@contextmanager
def chunks_if(on: str | None, workers: int | None, translator: Translator) -> Iterator[Chunks | None]:
    """`chunks_on` the cluster that `--on` names, for as long as this process has joined it; None without `--on`."""
    if on is None:
        yield None
        return
    with connected(on, workers) as cluster:
        yield chunks_on(cluster, translator)


def translate_list_on(on: str, translator: Translator, texts: Sequence[str], counting: Counting) -> list[Translation]:
    """The translation of each text, without the scores of tokens, by the actors of the cluster that `on` names."""
    found: list[Translation] = []
    options = DecodeOptions(token_scores=False)
    with connected(on) as cluster:
        for chunk in chunks_on(cluster, translator)(map(SourceText, texts), options, 0):
            found += chunk
            counting(len(found), len(texts))
    return found


def chunks_on(cluster: Cluster, translator: Translator) -> Chunks:
    """What translates as `translator.chunks` does, by the actors of a cluster. All sources are read first."""

    def chunks(sources: Iterable[SourceText], options: DecodeOptions, start: int = 0) -> Generator[list[Translation]]:
        read = list(enumerate(in_chunks(sources, CHUNK)))
        if not read:
            return
        if not start:
            translator.compared(options, read[0][1])
        expected = 0
        decoder = shipped_decoder(translator, options)
        for number, found in in_actors(cluster, decoder.open_chunks, read, ordered=True, gpu=decoder.gpu):
            if isinstance(found, QkvError):
                raise found
            if number != expected:
                break
            yield found
            expected += 1
        if expected < len(read):
            first = start + expected * CHUNK + 1
            last = first + len(read[expected][1]) - 1
            raise QkvError(f"lines {first:,} to {last:,} are lost, since every actor that read them died; {GO_ON}")

    return chunks

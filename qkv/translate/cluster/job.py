"""A batch job: the shards of the input through actors, each committed by the actor that has finished it."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from qkv.core.errors import QkvError, error_text
from qkv.core.progress import Reporter
from qkv.data.texts import Invalid
from qkv.translate.cluster.actors import in_actors
from qkv.translate.cluster.connection import Cluster
from qkv.translate.cluster.folder import FAILED, JobFolder
from qkv.translate.cluster.formats import Columns, Format, RowResult, format_of
from qkv.translate.cluster.inputs import Inputs, Shard, survey_inputs
from qkv.translate.cluster.lease import driving
from qkv.translate.cluster.storage import location_of, matching
from qkv.translate.jobs.job import GO_ON

ROWS_PER_SHARD = 2048
LARGEST_CHUNK = 512
"""A shard has a multiple of it, so that chunks end where shards do."""
Do = Callable[[Sequence[str], Sequence[int]], list[RowResult]]
"""Some texts, and their numbers in their file, from 1: the result of each."""


class Work(Protocol):
    """What is done with every text. It is sent to the actors, and opened there."""

    @property
    def verb(self) -> str:
        """For progress."""

    @property
    def at_once(self) -> int:
        """Texts that are given together; `LARGEST_CHUNK` is a multiple of it."""

    @property
    def gpu(self) -> bool:
        """Whether an actor needs a GPU."""

    @property
    def columns(self) -> Columns:
        """What is added to JSON lines and tables."""

    def open(self) -> Do:
        """Load what it needs."""


@dataclass(frozen=True)
class JobOptions:
    """How the files are read and divided."""

    column: str = "src"
    """Of JSON lines and Parquet, the one that holds the texts."""
    rows_per_shard: int = ROWS_PER_SHARD
    invalid: Invalid = "error"


@dataclass(frozen=True)
class ShardWork:
    """What an actor does."""

    work: Work
    format: Format
    folder: JobFolder
    options: JobOptions

    def open(self) -> "Callable[[Shard], dict[str, Any] | str]":
        """A function that commits a shard and returns its manifest, or why it could not."""
        do = self.work.open()

        def commit(shard: Shard) -> dict[str, Any] | str:
            try:
                return self._commit(do, shard)
            except Exception as error:  # an actor reports it, whatever it is, and goes on with the next shard
                return error_text(error)

        return commit

    def _commit(self, do: Do, shard: Shard) -> dict[str, Any]:
        rows = self.format.read(shard, self.options.column, self.options.invalid)
        results: list[RowResult | None] = []
        failed = dict(rows.problems)
        for start in range(0, len(rows.texts), self.work.at_once):
            some = rows.texts[start : start + self.work.at_once]
            numbers = [shard.first + start + place + 1 for place, text in enumerate(some) if text is not None]
            found = attempts(do, [text for text in some if text is not None], numbers)
            for number, text in enumerate(some, start=start):
                result = None if text is None else next(found)
                if isinstance(result, str):
                    failed[number] = result
                results.append(result if isinstance(result, RowResult) else None)
        content = self.format.write(rows, results, self.work.columns)
        remarks = Counter(remark for result in results if result is not None for remark in result.remarks)
        problems = [{"row": shard.first + number + 1, "problem": failed[number]} for number in sorted(failed)]
        return self.folder.commit(shard, content, {"remarks": remarks, "failed": problems})


def attempts(do: Do, texts: Sequence[str], numbers: Sequence[int]) -> Iterator[RowResult | str]:
    """The result of each text. If they fail together, each is tried alone: its result, or what is wrong with it.

    Only what a text is the reason of is a result. Anything else, such as too little memory, is raised: the shard is not
    committed, and the job does it again.
    """
    if not texts:
        return
    try:
        yield from do(texts, numbers)
    except QkvError as error:
        if len(texts) == 1:
            yield str(error)
            return
        for text, number in zip(texts, numbers, strict=True):
            yield from attempts(do, [text], [number])


@dataclass(frozen=True)
class FileJob:
    """Input files and an output folder."""

    inputs: Inputs
    format: Format
    folder: JobFolder
    options: JobOptions
    name: str
    """Of the input, for messages."""

    def first_texts(self, count: int) -> list[str]:
        """Some texts from the start."""
        rows = self.format.read(self.inputs.shards[0], self.options.column, self.options.invalid)
        return [text for text in rows.texts[:count] if text is not None]

    def run(self, cluster: Cluster, work: Work, identity: Mapping[str, Any], restart: bool, reporter: Reporter) -> None:
        """Do what is not done yet. Raises QkvError if a shard could not be done, or if rows have failed.

        One process at a time may do so: UsageError in all others.
        """
        self.folder.require_usable()
        with driving(self.folder.place, reporter.say) as driver:
            driven = replace(self, folder=self.folder.driven_by(driver))
            driven._run(cluster, work, identity, restart, reporter)

    def _run(
        self, cluster: Cluster, work: Work, identity: Mapping[str, Any], restart: bool, reporter: Reporter
    ) -> None:
        identity = {"input": self.inputs.sha256, "rows per shard": self.options.rows_per_shard, **identity}
        self.folder.claim(identity, restart)
        done = self.folder.committed(self.inputs.shards)
        left = [shard for shard in self.inputs.shards if shard.number not in done]
        if not left and self.folder.finished:
            reporter.say(f"{self.folder.place.name}: is complete already")
        elif done:
            reporter.say(f"{self.folder.place.name}: {len(done):,} of {len(self.inputs.shards):,} shards are done")
        problems = self._do(cluster, ShardWork(work, self.format, self.folder, self.options), left, done, reporter)
        if len(done) < len(self.inputs.shards):
            raise QkvError(
                f"{self.folder.place.name}: {len(self.inputs.shards) - len(done):,} of {len(self.inputs.shards):,} "
                f"shards failed ({(problems or ['their actors died'])[0]}); {GO_ON}"
            )
        self.folder.finish(identity, done)
        self._tell(done, reporter)

    def _do(
        self, cluster: Cluster, work: ShardWork, left: list[Shard], done: dict[int, dict[str, Any]], reporter: Reporter
    ) -> list[str]:
        """Add the manifests of the shards that are left to `done`; what went wrong."""
        numbers = {(shard.file.name, shard.first): shard.number for shard in left}
        counting = reporter.counting(work.work.verb)
        rows = sum(about["rows"] for about in done.values())
        counting(rows, self.inputs.rows)
        problems = []
        for about in in_actors(cluster, work.open, left, gpu=work.work.gpu):
            if isinstance(about, str):
                problems.append(about)
                continue
            done[numbers[about["input"], about["first"]]] = about
            rows += about["rows"]
            counting(rows, self.inputs.rows)
        return problems

    def _tell(self, done: Mapping[int, Mapping[str, Any]], reporter: Reporter) -> None:
        remarks: Counter[str] = Counter()
        for about in done.values():
            remarks.update(about["remarks"])
        for remark, count in sorted(remarks.items()):
            reporter.say(f"{self.name}: {count:,} of {self.inputs.rows:,} rows {remark}")
        failed = [row for number in sorted(done) for row in done[number]["failed"]]
        if failed:
            raise QkvError(
                f"{len(failed):,} of {self.inputs.rows:,} rows have failed, the first because of: "
                f"{failed[0]['problem']}; all are listed in {self.folder.place.below(FAILED).name}"
            )


def file_job(source: str, output: str, ending: str, options: JobOptions, reporter: Reporter) -> FileJob:
    """Survey the input that a path, a pattern or a URI names, for a job that writes the folder `output`."""
    files = matching(source)
    # The texts of a shard are taken so many at a time.
    per_shard = -(-options.rows_per_shard // LARGEST_CHUNK) * LARGEST_CHUNK
    inputs = survey_inputs(files, per_shard, reporter.counting("Reading"))
    format_ = format_of(inputs.form, ending)
    return FileJob(inputs, format_, JobFolder(location_of(output), format_.ending), options, source)

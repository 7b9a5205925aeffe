"""Batch jobs on a Ray cluster of two nodes: actors, nodes and drivers die, and the output is that of one process."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray", reason="it is the extra ray")

from tests.support.commands import GREEDY, quiet, refused
from tests.support.forks import Child, Forks
from tests.support.speaker import save_speaker, sentences

# Ray starts a dozen processes, which takes its time where others work, too.
pytestmark = pytest.mark.timeout(900)
PATIENCE = 300.0
LINES = 10_000
SHARDS = 20


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    """Two nodes with a core each; one that dies is missed after a second. The first test removes one."""
    from ray.cluster_utils import Cluster

    quickly = {"health_check_initial_delay_ms": 500, "health_check_period_ms": 500, "health_check_failure_threshold": 2}
    before = signal.getsignal(signal.SIGTERM)  # Ray leaves one of its own
    node = {"num_cpus": 1, "object_store_memory": 80 << 20, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "_system_config": quickly})
    cluster.add_node(num_cpus=1, object_store_memory=80 << 20)
    yield cluster
    cluster.shutdown()
    signal.signal(signal.SIGTERM, before)


@pytest.fixture(scope="module")
def model(in_memory: Path) -> Path:
    return save_speaker(in_memory / "ray-model")


@pytest.fixture(scope="module")
def lines(in_memory: Path) -> Path:
    path = in_memory / "ray-lines.txt"
    path.write_text("".join(line + "\n" for line in sentences(LINES)))
    return path


@pytest.fixture(scope="module")
def wanted(model: Path, lines: Path, in_memory: Path, forks: Forks) -> str:
    """What the local command writes."""
    output = in_memory / "ray-wanted.txt"
    quiet(forks.qkv("translate", model, *GREEDY, "--input", lines, "--output", output))
    return output.read_text()


class Batch:
    """A translation on the cluster."""

    def __init__(self, nodes: Any, model: Path, lines: Path, output: Path, forks: Forks) -> None:
        self.nodes, self.output, self.forks = nodes, output, forks
        self.command = ("translate", model, *GREEDY, "--on", nodes.address, "--input", lines)

    def start(self) -> Child:
        command = (*self.command, "--output", self.output, "--rows-per-shard", 512)
        return self.forks.start("tests.support.forks:command", *map(str, command))

    @property
    def done(self) -> set[str]:
        """The manifests of committed shards."""
        return {path.name for path in self.output.glob("done/*.json")}

    def until_done(self, child: Child, shards: int) -> None:
        """Wait until at least so many shards are committed, but not all."""
        child.until(lambda: len(self.done) >= shards, PATIENCE)
        assert len(self.done) < SHARDS, "too fast to be disturbed"

    def actors(self) -> list[int]:
        """The processes of the actors, on both nodes."""
        raylets = {one.process.pid for node in self.nodes.list_all_nodes() for one in node.all_processes["raylet"]}
        return [int(path.name) for path in Path("/proc").glob("[0-9]*") if _is_actor(path, raylets)]

    @property
    def text(self) -> str:
        parts = sorted(self.output.glob("part-*.txt"))
        assert len(parts) == SHARDS
        return "".join(part.read_text() for part in parts)


def _is_actor(process: Path, raylets: set[int]) -> bool:
    try:
        parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
        return parent in raylets and b"MapWorker" in (process / "cmdline").read_bytes()
    except OSError:
        return False


@pytest.fixture
def batch(nodes: Any, model: Path, lines: Path, scratch: Path, forks: Forks) -> Batch:
    return Batch(nodes, model, lines, scratch / "out", forks)


def test_the_driver_an_actor_and_a_node_die(batch: Batch, wanted: str) -> None:
    """A second driver is refused; the first one is killed and started again, an actor killed, and a node removed."""
    child = batch.start()
    batch.until_done(child, 2)
    assert "on" in (told := refused(batch.start().wait(PATIENCE), 2))
    assert told.endswith("drives this job already; wait for it, stop it, or choose another folder")
    child.send(signal.SIGKILL)
    child.wait()
    kept = {name: (batch.output / "done" / name).stat().st_mtime_ns for name in batch.done}
    again = batch.start()
    batch.until_done(again, len(kept) + 1)
    os.kill(batch.actors()[0], signal.SIGKILL)
    batch.until_done(again, len(batch.done) + 1)
    batch.nodes.remove_node(batch.nodes.list_all_nodes()[-1], allow_graceful=False)
    ended = again.wait(PATIENCE)
    assert quiet(ended) == ""
    assert f"out: {len(kept)} of {SHARDS} shards are done" in ended.stderr
    assert batch.text == wanted
    # What was committed is not done again.
    assert kept.items() <= {(name, (batch.output / "done" / name).stat().st_mtime_ns) for name in batch.done}
    manifest = json.loads((batch.output / "manifest.json").read_text())
    assert (manifest["rows"], manifest["failed"], len(manifest["parts"])) == (LINES, 0, SHARDS)


def test_other_verbs_give_what_they_give_on_one_machine(
    nodes: Any, model: Path, lines: Path, wanted: str, scratch: Path, forks: Forks
) -> None:
    on = ("--on", nodes.address, "--workers", 1)
    mono = scratch / "mono"
    mono.write_text("".join(lines.read_text().splitlines(keepends=True)[:1100]))
    quiet(forks.qkv("backtranslate", model, *GREEDY, "--mono", mono, "--out", scratch / "pairs", *on, timeout=PATIENCE))
    assert (scratch / "pairs" / "train.src").read_text() == "".join(wanted.splitlines(keepends=True)[:1100])
    rows = [{"id": number, "text": text} for number, text in enumerate(mono.read_text().splitlines()[:70])]
    texts = [row["text"] for row in rows]
    (scratch / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*rows, {"id": -1}]))
    (scratch / "texts").write_text("".join(f"{text}\n" for text in texts))
    alone = quiet(forks.qkv("embed", model, "--input", scratch / "texts"))
    files = ("--input", scratch / "rows.jsonl", "--output", scratch / "vectors", "--column", "text")
    failed = refused(forks.qkv("embed", model, *files, *on, timeout=PATIENCE), 1)
    assert "1 of 71 rows have failed, the first because of: " in failed
    assert "rows.jsonl:71: has no key 'text'" in failed
    found = [json.loads(line) for line in (scratch / "vectors" / "part-000000.jsonl").read_text().splitlines()]
    vectors = [json.loads(line)["vector"] for line in alone.splitlines()]
    assert found == [{**row, "vector": own} for row, own in zip(rows, vectors, strict=True)] + [
        {"id": -1, "vector": None}
    ]


def test_models_that_draft_and_rescore_are_sent_along(nodes: Any, scratch: Path, forks: Forks) -> None:
    """The folders are not there any more when an actor opens them."""
    verifier = save_speaker(scratch / "verifier-here", 3, sharpness=2.0)
    one_pass = save_speaker(scratch / "ctc-here", 4, sharpness=2.0, decoder="ctc")
    texts = ",".join(sentences(6))
    draft = (verifier, "search=greedy", "search.max_factor=1", "draft.kind=model", f"draft.path={one_pass}")
    rescore = (one_pass, "search.kind=refine", "search.beam=3", f"search.rescore={verifier}")
    for model, *settings in (draft, rescore):
        source = scratch / "texts"
        source.write_text(texts.replace(",", "\n") + "\n")
        wanted = quiet(forks.qkv("translate", model, *settings, "--engine", "torch", "--input", source)).splitlines()
        sent = (nodes.address, str(model), texts, *settings)
        ended = forks.call("tests.support.shipping:translate_from_afar", *sent, timeout=PATIENCE)
        assert json.loads(quiet(ended)) == wanted
        for folder in scratch.glob("*-gone"):
            folder.rename(folder.with_name(folder.name.replace("gone", "here")))

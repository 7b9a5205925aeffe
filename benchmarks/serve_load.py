"""A server under load: throughput, latency, overload, mix-ups, clients that leave, a killed worker, SIGTERM.

    pip install 'qkv[serve,client,fast]'
    python benchmarks/serve_load.py es-en --texts test.spa --source es --target en

Everything runs on this machine: the server with its worker processes, and this program as its clients, which take
processor time from it. Throughput is compared with `Translator.translate` on the same texts (`offline`), with one
request at a time, and with CTranslate2 alone on texts that are cut into tokens beforehand. `--beside URL` measures
another server with LibreTranslate's interface in the same way. Every loop is bounded. Each part prints a JSON line, and
at the end there are the targets and whether each was met. `--quick` only shows that it works. `serve_soak.py` is the
hour at 80 % of the load.
"""

import argparse
import asyncio
import contextlib
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import httpx2

SERVE = [sys.executable, "-c", "from qkv.cli import main; main()", "serve"]
NORMAL_SECONDS = 60


class Asked(NamedTuple):
    """What became of some requests. Status 0: the answer of another text; -1: none."""

    statuses: Counter[int]
    seconds: list[tuple[int, float]]
    """(status, seconds) of each."""
    total: float


class Load:
    """Clients of one server."""

    def __init__(self, model: str, source: str, target: str, texts: list[str]) -> None:
        self.model, self.texts = model, texts
        self.fields = {"source": source, "target": target}
        self.expected: dict[str, str] = {}

    @contextlib.asynccontextmanager
    async def server(self, *settings: str) -> AsyncIterator[tuple[subprocess.Popen[str], str]]:
        process = subprocess.Popen([*SERVE, self.model, "port=0", *settings], stderr=subprocess.PIPE, text=True)
        try:
            assert process.stderr is not None
            match = re.search(r"http://\S+", process.stderr.readline())
            assert match, "the server does not start"
            while not await is_ready(match[0]):
                assert process.poll() is None, "the server ended before it was ready"
                await asyncio.sleep(0.05)
            yield process, match[0]
        finally:
            process.terminate()
            process.communicate()

    async def ask(self, client: httpx2.AsyncClient, text: str) -> tuple[int, float]:
        """The status of one request and its seconds."""
        began = time.perf_counter()
        try:
            response = await client.post("/translate", json={"q": text, **self.fields})
        except httpx2.HTTPError:
            return -1, time.perf_counter() - began
        seconds = time.perf_counter() - began
        # A text that is not known is that of a client who leaves, or of another server.
        known = self.expected.get(text)
        if response.status_code == 200 and known not in (None, response.json()["translatedText"]):
            return 0, seconds
        return response.status_code, seconds

    async def many(self, address: str, texts: list[str], at_once: int) -> Asked:
        """All texts, with so many connections at once."""
        places, began = asyncio.Semaphore(at_once), time.perf_counter()
        limits = httpx2.Limits(max_connections=at_once, max_keepalive_connections=at_once)
        async with httpx2.AsyncClient(base_url=address, limits=limits, timeout=120) as client:

            async def one(text: str) -> tuple[int, float]:
                async with places:
                    return await self.ask(client, text)

            answers = await asyncio.gather(*(one(text) for text in texts))
        return Asked(Counter(status for status, _ in answers), answers, time.perf_counter() - began)


async def is_ready(address: str) -> bool:
    async with httpx2.AsyncClient(base_url=address, timeout=10) as client:
        with contextlib.suppress(httpx2.HTTPError):
            return (await client.get("/health/ready")).status_code == 200
    return False


async def until(holds: Callable[[], Awaitable[bool]], seconds: float) -> float:
    """Wait until something holds; the seconds that it took. Raises SystemExit after `seconds`."""
    began = time.perf_counter()
    while not await holds():
        if time.perf_counter() - began > seconds:
            raise SystemExit(f"waited for {seconds:g} seconds in vain")
        await asyncio.sleep(0.05)
    return time.perf_counter() - began


def percentile(seconds: list[float], share: float) -> float:
    return sorted(seconds)[min(int(share * len(seconds)), len(seconds) - 1)] if seconds else 0.0


def offline(load: Load) -> dict[str, float]:
    """The Translator with all texts at once, and with one text at a time."""
    from qkv import Translator

    translator = Translator(load.model.partition("=")[0])
    translator.translate(load.texts[:64])
    began, used = time.perf_counter(), time.process_time()
    found = translator.translate(load.texts, token_scores=False)
    rate = len(load.texts) / (time.perf_counter() - began)
    cpu_ms = 1000 * (time.process_time() - used) / len(load.texts)
    load.expected = {text: each.text for text, each in zip(load.texts, found, strict=True)}
    seconds = []
    for text in load.texts[:200]:
        began = time.perf_counter()
        translator.translate([text], token_scores=False)
        seconds.append(time.perf_counter() - began)
    return {"texts_per_second": rate, "cpu_ms_per_text": cpu_ms, "one_ms": 1000 * statistics.median(seconds)}


def raw_ctranslate2(load: Load) -> dict[str, Any]:
    """CTranslate2's own batches on tokens that are there already: no tokenizer, no server."""
    try:
        import ctranslate2
    except ImportError:
        return {}
    from qkv.core.errors import QkvError
    from qkv.export.ctranslate2 import export_ctranslate2
    from qkv.kernels.threads import cores
    from qkv.models.saved.folder import load_model
    from qkv.models.saved.locate import locate_model

    saved = load_model(locate_model(load.model.partition("=")[0]))
    with tempfile.TemporaryDirectory() as temporary:
        try:
            export_ctranslate2(saved, Path(temporary) / "model")
        except QkvError as error:
            return {"impossible": str(error)}
        shared = Path(temporary) / "model" / "shared_vocabulary.json"
        file = shared if shared.exists() else shared.with_name("source_vocabulary.json")
        names = json.loads(file.read_text(encoding="utf-8"))
        translator = ctranslate2.Translator(str(shared.parent), inter_threads=cores(), intra_threads=1)
    end = saved.tokenizers.src.special.eos
    words = [[names[i] for i in (*ids, end)] for ids in saved.tokenizers.src.encode_batch(load.texts)]
    settings = {"beam_size": 5, "max_batch_size": 2048, "batch_type": "tokens", "max_decoding_length": 256}
    translator.translate_batch(words[:64], **settings)
    began = time.perf_counter()
    translator.translate_batch(words, **settings)
    return {"texts_per_second": len(words) / (time.perf_counter() - began)}


async def throughput(load: Load, address: str, server: int | None = None) -> dict[str, Any]:
    """One request at a time, then 64 at once; of the latter also the processor time that each process used."""
    await load.many(address, load.texts[:64], 8)
    alone = await load.many(address, load.texts[:200], 1)
    seconds = [each for _, each in alone.seconds]
    processes = {"clients": [os.getpid()]}
    if server is not None:
        processes |= {"server": [server], "workers": workers_of(server)}
    before = {name: cpu_seconds(*pids) for name, pids in processes.items()}
    full = await load.many(address, load.texts, 64)
    used = {name: cpu_seconds(*pids) - before[name] for name, pids in processes.items()}
    return {
        "cpu_ms_per_text": {name: 1000 * seconds / len(load.texts) for name, seconds in used.items()},
        "one_at_a_time_per_second": len(seconds) / sum(seconds),
        "idle_ms": 1000 * statistics.median(seconds),
        "idle_p99_ms": 1000 * percentile(seconds, 0.99),
        "saturated_per_second": len(load.texts) / full.total,
        "statuses": dict(full.statuses),
    }


async def overload(load: Load, address: str, process: int, count: int, requests: int) -> dict[str, Any]:
    """`count` requests at once, then `requests` of which no answer may be that of another text."""
    await load.many(address, load.texts[:200], 16)
    before = memory_mb(process, *workers_of(process))
    asked = await load.many(address, (load.texts * (count // len(load.texts) + 1))[:count], count)

    async def normal() -> bool:
        async with httpx2.AsyncClient(base_url=address, timeout=60) as client:
            return (await load.ask(client, load.texts[0]))[0] == 200

    again = await until(normal, NORMAL_SECONDS)
    refused = [seconds for status, seconds in asked.seconds if status in (429, 503)]
    mixed = await load.many(address, (load.texts * (requests // len(load.texts) + 1))[:requests], 100)
    return {
        "clients": count,
        "statuses": dict(asked.statuses),
        "refusal_p99_ms": 1000 * percentile(refused, 0.99),
        "normal_again_seconds": again,
        "memory_growth_mb": memory_mb(process, *workers_of(process)) - before,
        "requests": requests,
        "mix_ups": mixed.statuses[0],
        "request_statuses": dict(mixed.statuses),
    }


async def leave(load: Load, address: str, count: int) -> dict[str, Any]:
    """Clients that hang up when the server has taken their requests, beside others that stay."""
    limits = httpx2.Limits(max_connections=count)
    async with httpx2.AsyncClient(base_url=address, timeout=60) as client:
        before, taken = await metric(client, "cancelled_total"), await metric(client, "requests_total")
        long = [" ".join([text] * 40)[:4000] for text in (load.texts * (count // len(load.texts) + 1))[:count]]
        async with httpx2.AsyncClient(base_url=address, timeout=120, limits=limits) as leaving:
            tasks = [asyncio.create_task(load.ask(leaving, text)) for text in long]

            async def all_taken() -> bool:
                return await metric(client, "requests_total") >= taken + count

            await until(all_taken, NORMAL_SECONDS)
            answered = sum(task.done() for task in tasks)
            staying = asyncio.create_task(load.many(address, load.texts[:50], 2))
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        stayed = await staying

        async def idle() -> bool:
            return not await metric(client, "running_batches") and not await metric(client, "waiting_texts")

        await until(idle, NORMAL_SECONDS)
        return {
            "clients": count,
            "answered_before": answered,
            "cancelled": await metric(client, "cancelled_total") - before,
            "stopped_batches": await metric(client, "stopped_batches_total"),
            "slowest_stop_ms": 1000 * await metric(client, "slowest_stop_seconds"),
            "others": dict(stayed.statuses),
        }


async def kill(load: Load, address: str, process: int) -> dict[str, Any]:
    """kill -9 of a worker while requests are being answered."""
    work = asyncio.create_task(load.many(address, load.texts, 16))
    await asyncio.sleep(0.2)
    workers = workers_of(process)
    async with httpx2.AsyncClient(base_url=address, timeout=60) as asking:
        deaths = await metric(asking, "worker_deaths_total")
    os.kill(workers[0], signal.SIGKILL)
    began = time.perf_counter()

    async def replaced() -> bool:
        async with httpx2.AsyncClient(base_url=address, timeout=60) as client:
            noticed = await metric(client, "worker_deaths_total") > deaths
            return noticed and await metric(client, "ready_workers") == len(workers)

    await until(replaced, NORMAL_SECONDS)
    asked = await work
    return {"statuses": dict(asked.statuses), "ready_again_seconds": time.perf_counter() - began}


async def terminate(load: Load, count: int) -> dict[str, Any]:
    """SIGTERM while requests are being answered: those that were accepted get their answer."""
    async with load.server("queue=1000") as (process, address):
        texts = (load.texts * (count // len(load.texts) + 1))[:count]
        work = asyncio.create_task(load.many(address, texts, count))
        async with httpx2.AsyncClient(base_url=address, timeout=60) as client:

            async def accepted() -> bool:
                return work.done() or await metric(client, "requests_total") >= count

            await until(accepted, NORMAL_SECONDS)
        process.send_signal(signal.SIGTERM)
        asked = await work
        return {"requests": count, "statuses": dict(asked.statuses), "exit_code": process.wait(60)}


async def metric(client: httpx2.AsyncClient, name: str) -> float:
    match = re.search(rf"^qkv_{name} ([\d.e-]+)$", (await client.get("/metrics")).text, re.M)
    assert match, name
    return float(match[1])


def workers_of(server: int) -> list[int]:
    """The worker processes of a server."""
    listed = subprocess.run(["ps", "-eo", "pid,ppid,args"], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()[1:]]
    return [int(pid) for pid, above, command in rows if above == str(server) and "workers.worker" in command]


def memory_mb(*processes: int) -> float:
    """The resident memory of some processes."""
    found = 0
    for pid in processes:
        with contextlib.suppress(OSError):
            match = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
            found += int(match[1]) if match else 0
    return found / 1024


def cpu_seconds(*processes: int) -> float:
    """The processor time of some processes so far."""
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in processes]
    return sum(int(each[11]) + int(each[12]) for each in fields) / os.sysconf("SC_CLK_TCK")


def descriptors(*processes: int) -> int:
    """The open files, pipes and connections of some processes."""
    return sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in processes)


def targets(found: dict[str, Any]) -> dict[str, bool]:
    """The targets, and whether each was met."""
    plain, server, over, left = found["offline"], found["server"], found["overload"], found["leave"]
    met = {
        "saturated >= 85 % of offline": server["saturated_per_second"] >= 0.85 * plain["texts_per_second"],
        "saturated >= 3 x one at a time": server["saturated_per_second"] >= 3 * server["one_at_a_time_per_second"],
        "added latency <= 5 ms": server["idle_ms"] - plain["one_ms"] <= 5,
        "idle p99 <= 20 ms": server["idle_p99_ms"] <= 20,
        "overload: all answered": set(over["statuses"]) <= {200, 429, 503},
        "overload: normal in 5 s": over["normal_again_seconds"] <= 5,
        "no mix-ups": over["mix_ups"] == 0,
        "leaving: stopped in 200 ms": left["stopped_batches"] > 0 and left["slowest_stop_ms"] <= 200,
        "leaving: every one noticed": left["cancelled"] >= left["clients"] - left["answered_before"],
        "leaving: others unaffected": set(left["others"]) == {200},
        "SIGTERM: none lost": set(found["terminate"]["statuses"]) == {200} and found["terminate"]["exit_code"] == 0,
        "kill -9: ready in 10 s": found["kill"]["ready_again_seconds"] <= 10,
        "kill -9: 200 or 503": set(found["kill"]["statuses"]) <= {200, 503},
    }
    return met


async def measure(load: Load, quick: bool, beside: str | None) -> dict[str, Any]:
    found: dict[str, Any] = {"texts": len(load.texts)}

    def note(name: str, value: Any) -> None:
        found[name] = value
        print(json.dumps({name: value}), flush=True)

    note("offline", offline(load))
    note("ctranslate2", raw_ctranslate2(load))
    if beside:
        note("beside", await throughput(Load(load.model, **load.fields, texts=load.texts), beside))
    async with load.server() as (process, address):
        note("server", await throughput(load, address, process.pid))
    async with load.server("queue=128") as (process, address):
        note("overload", await overload(load, address, process.pid, 100 if quick else 1000, 500 if quick else 10_000))
        note("leave", await leave(load, address, 20 if quick else 100))
        note("kill", await kill(load, address, process.pid))
    note("terminate", await terminate(load, 50 if quick else 500))
    return targets(found)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a model that comes with qkv, or FOLDER=aa-bb")
    parser.add_argument("--texts", type=Path, required=True, help="sources, one a line")
    parser.add_argument("--source", required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--beside", metavar="URL", help="another server with LibreTranslate's interface")
    options = parser.parse_args()
    lines = [line for line in dict.fromkeys(options.texts.read_text(encoding="utf-8").splitlines()) if line.strip()]
    given = Load(options.model, options.source, options.target, lines[: 64 if options.quick else 2000])
    print(json.dumps(asyncio.run(measure(given, options.quick, options.beside)), indent=1))

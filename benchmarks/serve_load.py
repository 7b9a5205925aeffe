"""A server under load: throughput, latency, overload, mix-ups, clients that leave, a killed worker, SIGTERM.

    pip install 'qkv[serve,client,fast]'
    python benchmarks/serve_load.py es-en --texts test.spa --source es --target en

Everything runs on this machine: the server with its worker processes, and this program as its clients, which take
little processor time (`load_client.py`). Throughput is compared with `Translator.translate` on the same texts in as
many processes as the server has workers (`offline`), in turns, of which each shows the one with the median rate; with
one request at a time; and with CTranslate2 alone on texts that are cut into tokens beforehand. `--beside URL` measures
another server with LibreTranslate's interface in the same turns; `libretranslate_server.py` starts one. Every loop is
bounded. Each part prints a JSON line, and at the end there are the targets and whether each was met. `--quick` only
shows that it works, `--speed` leaves out everything but throughput and latency. `serve_soak.py` is the hour at 80 % of
the load.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
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
import yaml
from load_client import Answered, post_all
from offline_rate import Search, offline_rate, seconds_alone
from server_processes import cpu_seconds, memory_mb, workers_of

SERVE = [sys.executable, "-c", "from qkv.cli import main; main()", "serve"]
NORMAL_SECONDS = 60
CLIENTS, REPEATED, TURNS, ALONE = 64, 2, 3, 200
WRONG = 0
"""The status of an answer to another text."""


class Asked(NamedTuple):
    """What became of some requests. Status 0: the answer of another text; -1: none."""

    statuses: Counter[int]
    seconds: list[tuple[int, float]]
    """(status, seconds) of each."""
    total: float


class Load:
    """Clients of one server."""

    def __init__(self, model: str, source: str, target: str, texts: list[str], search: Search = None) -> None:
        self.model, self.texts = model, texts
        self.folder, self.search = model.partition("=")[0], search
        self.fields = {"source": source, "target": target}
        self.expected: dict[str, str] = {}
        self.alone: list[float] = []
        """How long the Translator takes for each of the first texts by itself."""

    @contextlib.asynccontextmanager
    async def server(self, *settings: str) -> AsyncIterator[tuple[subprocess.Popen[str], str]]:
        searched = [f"models.0.search.{key}={value}" for key, value in (self.search or {}).items()]
        command = [*SERVE, self.model, "port=0", *searched, *settings]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
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
            return WRONG, seconds
        return response.status_code, seconds

    async def many(self, address: str, texts: list[str], at_once: int) -> Asked:
        """All texts, with so many connections at once."""
        began = time.perf_counter()
        answers = await post_all(address, "/translate", ({"q": text, **self.fields} for text in texts), at_once)
        total = time.perf_counter() - began
        seconds = [(self._status(*each), each[1].seconds) for each in zip(texts, answers, strict=True)]
        return Asked(Counter(status for status, _ in seconds), seconds, total)

    def _status(self, text: str, answered: Answered) -> int:
        known = self.expected.get(text)
        if answered.status == 200 and known not in (None, answered.json()["translatedText"]):
            return WRONG
        return answered.status


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
    """The Translator with one text at a time; `load` gets the answers that a server must give."""
    from qkv import Translator

    translator = Translator(load.folder, search=load.search)
    found = translator.translate(load.texts, token_scores=False)
    load.expected = {text: each.text for text, each in zip(load.texts, found, strict=True)}
    load.alone = seconds_alone(load.folder, load.search, load.texts[:ALONE])
    return {"one_ms": 1000 * statistics.median(load.alone), "one_p99_ms": 1000 * percentile(load.alone, 0.99)}


def raw_ctranslate2(load: Load) -> dict[str, Any]:
    """CTranslate2's own batches on tokens that are there already: no tokenizer, no server."""
    try:
        import ctranslate2
    except ImportError:
        return {}
    from qkv import Translator
    from qkv.core.errors import QkvError
    from qkv.export.ctranslate2 import export_ctranslate2
    from qkv.kernels.threads import cores

    models = Translator(load.folder).models
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(load.folder) if models.exported else Path(temporary) / "model"
        try:
            if not models.exported:
                export_ctranslate2(models.loaded[0], folder)
        except QkvError as error:
            return {"impossible": str(error)}
        shared = folder / "shared_vocabulary.json"
        file = shared if shared.exists() else shared.with_name("source_vocabulary.json")
        names = json.loads(file.read_text(encoding="utf-8"))
        translator = ctranslate2.Translator(str(folder), inter_threads=cores(), intra_threads=1)
    tokenizer = models.tokenizers.src
    words = [[names[i] for i in (*ids, tokenizer.special.eos)] for ids in tokenizer.encode_batch(load.texts)]
    settings = {"beam_size": 5, "max_batch_size": 2048, "batch_type": "tokens", "max_decoding_length": 256}
    translator.translate_batch(words[:64], **settings)
    began = time.perf_counter()
    translator.translate_batch(words, **settings)
    return {"texts_per_second": len(words) / (time.perf_counter() - began)}


async def idle(load: Load, address: str) -> dict[str, float]:
    """One request at a time."""
    await load.many(address, load.texts[:64], 8)
    asked = await load.many(address, load.texts[:ALONE], 1)
    seconds = [each for _, each in asked.seconds]
    added = [each - own for each, own in zip(seconds, load.alone, strict=True)]
    return {
        "one_at_a_time_per_second": len(seconds) / sum(seconds),
        "idle_ms": 1000 * statistics.median(seconds),
        "idle_p99_ms": 1000 * percentile(seconds, 0.99),
        "added_ms": 1000 * statistics.median(added),
        "added_p99_ms": 1000 * percentile(added, 0.99),
    }


async def saturated(load: Load, address: str, server: int | None = None) -> dict[str, Any]:
    """Many requests at once, and the processor time that each process used for them."""
    processes = {"clients": [os.getpid()]}
    if server is not None:
        processes |= {"server": [server], "workers": workers_of(server)}
    before = {name: cpu_seconds(*pids) for name, pids in processes.items()}
    full = await load.many(address, load.texts * REPEATED, CLIENTS)
    count = REPEATED * len(load.texts)
    used = {name: cpu_seconds(*pids) - before[name] for name, pids in processes.items()}
    return {
        "texts_per_second": count / full.total,
        "cpu_ms_per_text": {name: 1000 * seconds / count for name, seconds in used.items()},
        "statuses": dict(full.statuses),
    }


async def in_turns(load: Load, beside: str | None, turns: int) -> dict[str, dict[str, Any]]:
    """The Translator, our server and another one, one after the other; of each, the turn with the median rate."""
    found: dict[str, list[dict[str, Any]]] = {"offline": [], "server": []}
    other = Load(load.model, load.fields["source"], load.fields["target"], load.texts)  # whose answers may be others
    other.alone = load.alone
    async with load.server() as (process, address):
        about = {"server": await idle(load, address)}
        if beside:
            about["beside"] = await idle(other, beside)
            found["beside"] = []
        for _ in range(turns):
            found["offline"].append(
                offline_rate(load.folder, load.search, load.texts * REPEATED, len(workers_of(process.pid)))
            )
            found["server"].append(await saturated(load, address, process.pid))
            if beside:
                found["beside"].append(await saturated(other, beside))
    return {
        name: about.get(name, {})
        | sorted(each, key=lambda turn: float(turn["texts_per_second"]))[len(each) // 2]
        | {"turns": [round(turn["texts_per_second"], 1) for turn in each]}
        for name, each in found.items()
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


def targets(found: dict[str, Any]) -> dict[str, bool]:
    """The targets, and whether each was met."""
    plain, server = found["offline"], found["server"]
    met = {
        "saturated >= 85 % of offline": server["texts_per_second"] >= 0.85 * plain["texts_per_second"],
        "saturated >= 3 x one at a time": server["texts_per_second"] >= 3 * server["one_at_a_time_per_second"],
        "added latency <= 5 ms": server["added_ms"] <= 5,
        "added latency, p99 <= 20 ms": server["added_p99_ms"] <= 20,
    }
    if "overload" not in found:
        return met
    over, left = found["overload"], found["leave"]
    return met | {
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


async def measure(load: Load, quick: bool, speed: bool, beside: str | None) -> dict[str, Any]:
    found: dict[str, Any] = {"texts": len(load.texts)}

    def note(name: str, value: Any) -> None:
        found[name] = value
        print(json.dumps({name: value}), flush=True)

    note("alone", offline(load))
    note("ctranslate2", raw_ctranslate2(load))
    for name, value in (await in_turns(load, beside, 1 if quick else TURNS)).items():
        note(name, value)
    if speed:
        return targets(found)
    async with load.server("queue=128") as (process, address):
        note("overload", await overload(load, address, process.pid, 100 if quick else 1000, 500 if quick else 10_000))
        note("leave", await leave(load, address, 20 if quick else 100))
        note("kill", await kill(load, address, process.pid))
    note("terminate", await terminate(load, 50 if quick else 500))
    return targets(found)


def load_parser(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a model that comes with qkv, or FOLDER=aa-bb")
    parser.add_argument("--texts", type=Path, required=True, help="sources, one a line")
    parser.add_argument("--source", required=True)
    parser.add_argument("--target", required=True)
    return parser


def read_texts(path: Path, most: int) -> list[str]:
    """Different ones, shuffled: corpora are often sorted by length, what clients send is not."""
    lines = [line for line in dict.fromkeys(path.read_text(encoding="utf-8").splitlines()) if line.strip()]
    random.Random(1).shuffle(lines)
    return lines[:most]


if __name__ == "__main__":
    parser = load_parser(__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument(
        "--search", nargs="*", metavar="KEY=VALUE", help="of server and Translator, such as kind=greedy"
    )
    parser.add_argument("--beside", metavar="URL", help="another server with LibreTranslate's interface")
    options = parser.parse_args()
    searched = {
        key: yaml.safe_load(value) for key, _, value in (word.partition("=") for word in options.search or ())
    } or None
    texts = read_texts(options.texts, 64 if options.quick else 2000)
    given = Load(options.model, options.source, options.target, texts, searched)
    print(json.dumps(asyncio.run(measure(given, options.quick, options.speed, options.beside)), indent=1))

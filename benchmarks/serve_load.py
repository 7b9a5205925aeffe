"""A server under load: throughput, latency, overload, clients that leave, a worker that is killed, an end by SIGTERM.

    pip install 'qkv[serve,client,fast]'
    python benchmarks/serve_load.py es-en --texts test.spa --source es --target en

Everything runs on this machine: the server with its worker processes, and this program as its clients. Throughput is
compared with `Translator.translate` on the same texts in one process (`offline`), and with one request at a time. All
request loops are bounded. A JSON line with all figures is printed at the end; `--quick` only shows that it works.
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
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2

SERVE = [sys.executable, "-c", "from qkv.cli import main; main()", "serve"]


class Load:
    """Clients of one server."""

    def __init__(self, model: str, source: str, target: str, texts: list[str]) -> None:
        self.model, self.texts = model, texts
        self.fields = {"source": source, "target": target}
        self.expected: dict[str, str] = {}

    @contextlib.asynccontextmanager
    async def server(self, *settings: str) -> AsyncIterator[tuple[subprocess.Popen[str], str]]:
        process = subprocess.Popen([*SERVE, self.model, "port=0", *settings], stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        match = re.search(r"http://\S+", process.stderr.readline())
        assert match, "the server does not start"
        async with httpx2.AsyncClient(base_url=match[0]) as client:
            while (await client.get("/health/ready")).status_code != 200:
                await asyncio.sleep(0.1)
        try:
            yield process, match[0]
        finally:
            process.terminate()
            process.communicate(timeout=60)

    async def ask(self, client: httpx2.AsyncClient, text: str) -> tuple[int, float]:
        """The status of one request and its seconds; an answer of another text is counted as status 0."""
        began = time.perf_counter()
        response = await client.post("/translate", json={"q": text, **self.fields})
        seconds = time.perf_counter() - began
        if response.status_code == 200 and self.expected.get(text, "") != response.json()["translatedText"]:
            return 0, seconds
        return response.status_code, seconds

    async def many(self, address: str, texts: list[str], at_once: int) -> tuple[Counter[int], list[float], float]:
        """Statuses, seconds of each, and seconds in all, with so many connections at once."""
        places, began = asyncio.Semaphore(at_once), time.perf_counter()
        limits = httpx2.Limits(max_connections=at_once, max_keepalive_connections=at_once)
        async with httpx2.AsyncClient(base_url=address, limits=limits, timeout=120) as client:

            async def one(text: str) -> tuple[int, float]:
                async with places:
                    try:
                        return await self.ask(client, text)
                    except httpx2.HTTPError:
                        return -1, 0.0

            answers = await asyncio.gather(*(one(text) for text in texts))
        return Counter(status for status, _ in answers), [each for _, each in answers], time.perf_counter() - began


def offline(load: Load) -> tuple[float, float]:
    """Texts per second of the Translator with all texts at once, and the median seconds of one text by itself."""
    from qkv import Translator

    translator = Translator(load.model)
    translator.translate(load.texts[:64])
    began = time.perf_counter()
    found = translator.translate(load.texts, token_scores=False)
    rate = len(load.texts) / (time.perf_counter() - began)
    load.expected = {text: each.text for text, each in zip(load.texts, found, strict=True)}
    seconds = []
    for text in load.texts[:100]:
        began = time.perf_counter()
        translator.translate([text], token_scores=False)
        seconds.append(time.perf_counter() - began)
    return rate, statistics.median(seconds)


async def measure(load: Load, quick: bool) -> dict[str, Any]:
    rate, alone = offline(load)
    found: dict[str, Any] = {"texts": len(load.texts), "offline_texts_per_second": rate, "offline_ms": 1000 * alone}
    async with load.server() as (_, address):
        await load.many(address, load.texts[:64], 8)
        statuses, seconds, _ = await load.many(address, load.texts[:100], 1)
        one_by_one = len(seconds) / sum(seconds)
        found |= {"one_at_a_time_per_second": one_by_one, "idle_ms": 1000 * statistics.median(seconds)}
        found["idle_p99_ms"] = 1000 * sorted(seconds)[int(0.99 * len(seconds))]
        statuses, _, total = await load.many(address, load.texts, 64)
        found |= {"saturated_per_second": len(load.texts) / total, "statuses": dict(statuses)}
    async with load.server("queue=128") as (_, address):
        count = 100 if quick else 1000
        statuses, _, total = await load.many(address, (load.texts * 4)[:count], count)
        found["overload"] = {"clients": count, "statuses": dict(statuses), "seconds": total}
        began = time.perf_counter()
        async with httpx2.AsyncClient(base_url=address, timeout=60) as client:
            while (await load.ask(client, load.texts[0]))[0] != 200:
                await asyncio.sleep(0.05)
        found["overload"]["normal_again_seconds"] = time.perf_counter() - began
        found["left"] = await leave(load, address, 10 if quick else 100)
        found["killed"] = await kill(load, address)
    found["terminated"] = await terminate(load, 50 if quick else 500)
    return found


async def leave(load: Load, address: str, count: int) -> dict[str, Any]:
    """Clients that hang up after 20 ms, and one that does not."""
    async with httpx2.AsyncClient(base_url=address, timeout=60) as client:
        before = await metric(client, "cancelled_total")

        async def one(text: str) -> None:
            with contextlib.suppress(TimeoutError, httpx2.HTTPError):
                await asyncio.wait_for(load.ask(client, " ".join([text] * 20)[:4000]), 0.02)

        await asyncio.gather(*(one(text) for text in (load.texts * 2)[:count]))
        began = time.perf_counter()
        status, _ = await load.ask(client, load.texts[0])
        waited = time.perf_counter() - began
        await asyncio.sleep(0.5)
        return {
            "clients": count,
            "cancelled": await metric(client, "cancelled_total") - before,
            "next_status": status,
            "next_seconds": waited,
        }


async def kill(load: Load, address: str) -> dict[str, Any]:
    """kill -9 of a worker while requests are being answered."""
    work = asyncio.create_task(load.many(address, load.texts, 16))
    await asyncio.sleep(0.2)
    os.kill(workers_of(os.getpid())[0], signal.SIGKILL)
    statuses, _, _ = await work
    return {"statuses": dict(statuses)}


async def terminate(load: Load, count: int) -> dict[str, Any]:
    """SIGTERM while requests are being answered: those that were accepted get their answer."""
    async with load.server("queue=1000") as (process, address):
        work = asyncio.create_task(load.many(address, (load.texts * 2)[:count], count))
        await asyncio.sleep(1)
        process.send_signal(signal.SIGTERM)
        statuses, _, _ = await work
        return {"requests": count, "statuses": dict(statuses), "exit_code": process.wait(60)}


async def metric(client: httpx2.AsyncClient, name: str) -> int:
    match = re.search(rf"^qkv_{name} (\d+)$", (await client.get("/metrics")).text, re.M)
    assert match
    return int(match[1])


def workers_of(parent: int) -> list[int]:
    """The worker processes of the server that this program started."""
    listed = subprocess.run(["ps", "-eo", "pid,ppid,args"], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()[1:]]
    servers = {pid for pid, above, _ in rows if above == str(parent)}
    return [int(pid) for pid, above, command in rows if above in servers and "qkv.serving.worker" in command]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a model that comes with qkv, or FOLDER=aa-bb")
    parser.add_argument("--texts", type=Path, required=True, help="sources, one a line")
    parser.add_argument("--source", required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    lines = list(dict.fromkeys(options.texts.read_text(encoding="utf-8").splitlines()))
    given = Load(options.model, options.source, options.target, lines[: 64 if options.quick else 2000])
    print(json.dumps(asyncio.run(measure(given, options.quick))))

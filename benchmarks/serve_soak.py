"""A server for an hour at 80 % of what it can do: errors, memory, descriptors, threads.

    pip install 'qkv[serve,client,fast]'
    python benchmarks/serve_soak.py es-en --texts test.spa --source es --target en --seconds 3600

The load is a mixture: most requests translate a text (its answer must be that of the `Translator`), the others use the
other addresses, and some clients leave before they are answered. First as many clients as the queue takes ask without a
pause, so that the largest batches that there can be have been in memory. Then saturation is measured, with the same
mixture and 32 clients; then requests arrive at 80 % of that rate, whether or not earlier ones have been answered.
Memory is compared between the end of the first tenth and the end, descriptors before the load and after it; a JSON line
a minute shows how it went. On a machine that does other things, `chrt -r 10 taskset -c 0` in front of it keeps one core
for it.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
from serve_load import Load, load_parser, metric, offline, read_texts, until
from server_processes import descriptors, memory_mb, workers_of

SHARE = 0.8
CLIENTS, MOST_CLIENTS = 32, 120
SETTLE_SECONDS = 60
NOTE_SECONDS = 60
LEFT = 499
"""The status that is noted for a client that left."""


class Mixture:
    """Requests of several kinds, by number."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self.rare: list[Callable[[httpx2.AsyncClient, str], Awaitable[int]]] = [
            self._html, self._file, self._detect, self._detail, self._score, self._vectors, self._forbid, self._leave,
        ]  # fmt: skip

    async def ask(self, client: httpx2.AsyncClient, number: int) -> int:
        """The status of a request; 0: the answer of another text, -1: none. Every tenth is of one of the rare kinds."""
        text = self.load.texts[number % len(self.load.texts)]
        if number % 10:
            return (await self.load.ask(client, text))[0]
        try:
            return await self.rare[number // 10 % len(self.rare)](client, text)
        except httpx2.HTTPError:
            return -1

    async def _html(self, client: httpx2.AsyncClient, text: str) -> int:
        return await self._post(client, "/translate", {"q": [f"<p>{text} <b>{text}</b></p>"], "format": "html"})

    async def _file(self, client: httpx2.AsyncClient, text: str) -> int:
        upload = {"file": ("text.txt", f"{text}\n{text}\n".encode())}
        response = await client.post("/translate_file", data=self.load.fields, files=upload)
        if response.status_code != 200:
            return response.status_code
        return (await client.get(response.json()["translatedFileUrl"])).status_code

    async def _detect(self, client: httpx2.AsyncClient, text: str) -> int:
        return await self._post(client, "/detect", {"q": text})

    async def _detail(self, client: httpx2.AsyncClient, text: str) -> int:
        return await self._post(client, "/v1/translate", {"texts": [text], "nbest": 2, "alignment": True, "likely": 3})

    async def _score(self, client: httpx2.AsyncClient, text: str) -> int:
        return await self._post(client, "/v1/score", {"pairs": [[text, self.load.expected[text]]]})

    async def _vectors(self, client: httpx2.AsyncClient, text: str) -> int:
        return await self._post(client, "/v1/embeddings", {"texts": [text]})

    async def _forbid(self, client: httpx2.AsyncClient, text: str) -> int:
        words = self.load.expected[text].split()[:1]
        return await self._post(client, "/v1/translate", {"texts": [text], "forbidden": words})

    async def _leave(self, client: httpx2.AsyncClient, text: str) -> int:
        """A client that gives up after 20 ms, if it has no answer by then."""
        try:
            return await asyncio.wait_for(self._post(client, "/translate", {"q": [text] * 8}), 0.02)
        except TimeoutError:
            return LEFT

    async def _post(self, client: httpx2.AsyncClient, address: str, fields: dict[str, Any]) -> int:
        named = self.load.fields if address == "/translate" else {}
        return (await client.post(address, json=fields | named)).status_code


class Clients:
    """As many clients as ask at the same time, with one connection each: the cost of a request with a pool of
    connections grows with their number, and a queue that is long for a moment would never become short again."""

    def __init__(self, mixture: Mixture, address: str) -> None:
        self.mixture, self.address = mixture, address
        self.idle: list[httpx2.AsyncClient] = []

    async def ask(self, number: int) -> int:
        """The status of a request."""
        client = self.idle.pop() if self.idle else self._new()
        try:
            return await self.mixture.ask(client, number)
        finally:
            self.idle.append(client)

    def _new(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(base_url=self.address, timeout=60, transport=httpx2.AsyncHTTPTransport(verify=False))

    async def close(self) -> None:
        for client in self.idle:
            await client.aclose()


class State(NamedTuple):
    """What a server holds."""

    server_mb: float
    workers_mb: float
    descriptors: int
    threads: int

    @property
    def memory_mb(self) -> float:
        return self.server_mb + self.workers_mb

    @staticmethod
    def of(server: int) -> "State":
        workers = workers_of(server)
        tasks = sum(len(list(Path(f"/proc/{pid}/task").iterdir())) for pid in (server, *workers))
        return State(round(memory_mb(server), 2), round(memory_mb(*workers), 2), descriptors(server, *workers), tasks)


async def saturation(clients: Clients, seconds: float, asking: int = CLIENTS) -> float:
    """Requests a second of clients that ask without a pause."""
    numbers, began = count(), time.perf_counter()
    done = 0

    async def ask_on() -> None:
        nonlocal done
        while time.perf_counter() - began < seconds:
            await clients.ask(next(numbers))
            done += 1

    await asyncio.gather(*(ask_on() for _ in range(asking)))
    return done / (time.perf_counter() - began)


async def soak(clients: Clients, server: int, seconds: float, rate: float) -> dict[str, Any]:
    """Requests at this rate; what they were answered with, and what has grown. Prints a note a minute."""
    statuses: Counter[int] = Counter()
    tasks: set[asyncio.Task[None]] = set()
    began = noted = time.perf_counter()
    first: State | None = None

    async def one(number: int) -> None:
        statuses[await clients.ask(number)] += 1

    def note(**more: Any) -> None:
        passed = round(time.perf_counter() - began)
        now = {"seconds": passed, **State.of(server)._asdict(), "open": len(tasks), "statuses": dict(statuses)}
        print(json.dumps(now | more), flush=True)

    for number in range(int(seconds * rate)):
        await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
        task = asyncio.create_task(one(number))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        now = time.perf_counter()
        if first is None and now - began > seconds / 10:
            first = State.of(server)
            note(mark="growth is counted from here")
        if now - noted > NOTE_SECONDS:
            noted = now
            note()
    await asyncio.gather(*tasks)
    last = State.of(server)
    before = first or last
    return {
        "seconds": round(time.perf_counter() - began),
        "requests": sum(statuses.values()),
        "per_second": rate,
        "statuses": dict(statuses),
        "memory_mb": round(last.memory_mb, 2),
        "memory_growth_mb": round(last.memory_mb - before.memory_mb, 2),
        "thread_growth": last.threads - before.threads,
    }


async def measure(load: Load, seconds: float, settings: list[str]) -> dict[str, bool]:
    offline(load)  # gives the expected answers
    async with load.server(*settings) as (process, address):
        idle = State.of(process.pid).descriptors
        clients = Clients(Mixture(load), address)
        await saturation(clients, min(20, seconds / 10), MOST_CLIENTS)
        most = await saturation(clients, min(60, seconds / 10))
        print(json.dumps({"saturated_per_second": most}), flush=True)
        found = await soak(clients, process.pid, seconds, SHARE * most)
        await clients.close()

        async def closed() -> bool:
            return State.of(process.pid).descriptors <= idle

        found["descriptors_closed_after"] = await until(closed, SETTLE_SECONDS)
        async with httpx2.AsyncClient(base_url=address, timeout=60) as client:
            found["workers_that_died"] = await metric(client, "worker_deaths_total")
    print(json.dumps(found), flush=True)
    return {
        "no errors": set(found["statuses"]) <= {200, LEFT} and not found["workers_that_died"],
        "memory < 5 MiB": found["memory_growth_mb"] < 5,
        "threads stay": found["thread_growth"] <= 0,
    }


if __name__ == "__main__":
    parser = load_parser(__doc__)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("settings", nargs="*", help="settings of the server, such as workers=1")
    options = parser.parse_intermixed_args()
    given = Load(options.model, options.source, options.target, read_texts(options.texts, 2000))
    print(json.dumps(asyncio.run(measure(given, options.seconds, options.settings)), indent=1))

"""How requests and servers end: the deadline of a request, and a second signal to a server that is draining."""

import concurrent.futures
import os
import signal
import time
from typing import Any

import httpx2

from tests.support.server import MODEL, RunningServer, running

LONG: dict[str, Any] = {"texts": ["minesu " * 600] * 64, "search": {"kind": "beam", "size": 16}}
"""Minutes of work."""


def metric(server: RunningServer, name: str) -> int:
    (line,) = [
        line
        for line in httpx2.get(f"{server.address}/metrics", timeout=120).text.splitlines()
        if line.startswith(f"qkv_{name} ")
    ]
    return int(line.rpartition(" ")[2])


def test_the_deadline_of_a_request_and_a_second_signal() -> None:
    with running(f"{MODEL}=aa-bb", "models.0.engine=torch", "workers=1", "limits.seconds=1") as server:
        late = httpx2.post(f"{server.address}/v1/translate", json=LONG, timeout=120)
        assert late.status_code == 504
        assert late.json()["error"] == "this took too long"
        assert late.json()["request_id"] == late.headers["x-request-id"]
        streamed = httpx2.post(f"{server.address}/v1/stream", json=LONG, timeout=120)
        assert streamed.status_code == 504 or "this took too long" in streamed.text
        # The worker does not go on with them: it is free again, and then has nothing to do but a short request.
        short = {"q": "su", "source": "aa", "target": "bb"}
        while httpx2.post(f"{server.address}/translate", json=short, timeout=120).status_code != 200:
            time.sleep(0.05)
        assert metric(server, "waiting_texts") == metric(server, "running_batches") == 0
        assert metric(server, "worker_deaths_total") == 0
    assert server.process.returncode == 0


def test_a_second_signal_ends_a_server_that_is_draining() -> None:
    patient = "limits.seconds=600", "drain_seconds=600"
    with (
        running(f"{MODEL}=aa-bb", "models.0.engine=torch", "workers=1", *patient) as server,
        concurrent.futures.ThreadPoolExecutor(1) as threads,
    ):
        asking = threads.submit(httpx2.post, f"{server.address}/v1/translate", json=LONG, timeout=600)
        while not metric(server, "running_batches"):
            time.sleep(0.01)
        (worker,) = _children(server.process.pid)
        server.process.send_signal(signal.SIGTERM)
        while _listens(server):
            time.sleep(0.01)
        assert server.process.poll() is None, "it answers what it has taken"
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(timeout=60)
        answer = asking.result()
        assert (answer.status_code, answer.json()) == (503, {"error": "the server is shutting down"})
        while os.path.exists(f"/proc/{worker}"):
            time.sleep(0.01)


def _children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


def _listens(server: RunningServer) -> bool:
    try:
        httpx2.get(f"{server.address}/health", timeout=120)
    except httpx2.HTTPError:
        return False
    return True

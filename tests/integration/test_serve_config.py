"""`qkv serve --config`: several models, loaded when they are first used, and read again without losing a request."""

import json
import signal
import threading
import time
from pathlib import Path
from typing import Any

import httpx2

from qkv.serving.keys import add_key
from tests.support.server import MODEL, running

CONFIG = """
workers: 1
preload: false
loaded_models: 1
log: requests
keys: {keys}
models:
  - {{path: {model}, name: there, source: aa, target: bb, engine: torch}}
  - {{path: {model}, name: back, source: bb, target: aa, engine: torch, search: {{kind: greedy}}}}
"""
SECRET = "su kalo"


def test_models_are_read_again_while_requests_are_answered(tmp_path: Path) -> None:
    keys, file = tmp_path / "keys", tmp_path / "serve.yaml"
    admin, other = add_key(keys, "admin", 0), add_key(keys, "ada", 0)
    config = CONFIG.format(keys=keys, model=MODEL)
    file.write_text(config)
    with running("--config", str(file)) as server, httpx2.Client(base_url=server.address, timeout=60) as http:
        bearer = {"authorization": f"Bearer {admin}"}

        def ask(source: str, target: str) -> httpx2.Response:
            fields = {"q": SECRET, "source": source, "target": target, "api_key": other}
            return http.post("/translate", json=fields)

        assert ask("aa", "bb").json() == ask("bb", "aa").json() == {"translatedText": "KALO SU"}
        searches = [model["search"]["kind"] for model in http.get("/v1/models").json()]
        assert searches == ["beam", "greedy"]
        statuses: list[int] = []
        done = threading.Event()

        def keep_asking() -> None:
            while not done.is_set():
                statuses.append(ask("aa", "bb").status_code)

        asking = threading.Thread(target=keep_asking)
        asking.start()
        try:
            new = config + f"  - {{path: {MODEL}, name: third, source: cc, target: aa, engine: torch}}\n"
            file.write_text(new)
            found = http.post("/v1/reload", headers=bearer)
            assert [model["name"] for model in found.json()] == ["there", "back", "third"]
            file.write_text(config)
            server.process.send_signal(signal.SIGHUP)
            while len(http.get("/v1/models").json()) != 2:
                time.sleep(0.05)
            file.write_text(config.replace(str(MODEL), str(tmp_path / "nothing")))
            failed = http.post("/v1/reload", headers=bearer)
            assert failed.json()["error"] == "the models could not be loaded; they stay as they are"
        finally:
            done.set()
            asking.join()
        assert ask("cc", "aa").json() == {"error": "cc is not supported"}
        assert http.post("/v1/reload", json={"api_key": other}).status_code == 403
        assert set(statuses) == {200}
    _check_log(server.log, [admin, other])


def _check_log(lines: list[str], keys: list[str]) -> None:
    """Every line is a JSON object; requests have an id, a status and a time, and nothing of what was sent."""
    records: list[dict[str, Any]] = [json.loads(line) for line in lines]
    requests = [each for each in records if each["logger"] == "qkv.requests"]
    assert len({each["request_id"] for each in requests}) == len(requests) > 0
    translations = [each for each in requests if each["route"] == "/translate"]
    assert {each["status"] for each in translations} == {200, 400}
    assert all(each["milliseconds"] > 0 for each in translations)
    assert not any(hidden in line for line in lines for hidden in (SECRET, "KALO", *keys))

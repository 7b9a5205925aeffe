"""A real server with worker processes: the interface of LibreTranslate, its limits, and faults."""

import concurrent.futures
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docx
import httpx2
import pytest

from qkv import Translator
from qkv.client import Client, ServerError
from qkv.serving.keys import add_key
from tests.support.server import MODEL, WORDS, serving

SECONDS = "limits.seconds=120"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    # A worker that is replaced takes long to start on a busy machine.
    with serving("workers=1", SECONDS) as found:
        yield found


@pytest.fixture
def http(address: str) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=address, timeout=60) as client:
        yield client


def ask(http: httpx2.Client, **fields: Any) -> httpx2.Response:
    return http.post("/translate", json={"q": "su", "source": "aa", "target": "bb"} | fields)


def test_the_same_as_the_translator_alone_and_across_requests(address: str) -> None:
    expected = [found.text for found in Translator(MODEL, engine="torch").translate(WORDS)]
    with Client(address) as client, concurrent.futures.ThreadPoolExecutor(8) as threads:
        assert client.translate(WORDS, "aa", "bb") == expected
        found = list(threads.map(lambda word: client.translate(word, "aa", "bb"), WORDS * 3))
        assert found == expected * 3
        detailed = client.decode(WORDS[:1], nbest=2, alignment=True, search={"kind": "beam", "size": 4})
    assert detailed[0]["text"] == expected[0]
    assert len(detailed[0]["alternatives"]) == 1
    assert len(detailed[0]["alignment"]) == len(detailed[0]["tokens"])


def test_clients_of_libretranslate(http: httpx2.Client) -> None:
    expected = ask(http).json()["translatedText"]
    assert expected == "SU"
    weblate = http.post("/translate", data={"q": "su", "source": "AA", "target": "bb", "api_key": ""})
    assert weblate.json() == {"translatedText": expected}
    mastodon = ask(http, q=["<p>su</p>", ""], source="auto", format="html", api_key=None)
    assert mastodon.json()["translatedText"] == [f"<p>{expected}</p>", ""]
    assert [each["language"] for each in mastodon.json()["detectedLanguage"]] == ["aa", "aa"]
    pythons = http.request("GET", "/languages", data={"api_key": "x"})
    assert pythons.json() == [
        {"code": "aa", "name": "aa", "targets": ["bb"]},
        {"code": "bb", "name": "bb", "targets": []},
    ]
    assert http.get("/health").json() == {"status": "ok"}
    assert http.get("/frontend/settings").json()["charLimit"] == 5000
    assert "/translate" in http.get("/spec").json()["paths"]
    assert ask(http, q="kalo minesu ta", alternatives=5).json()["alternatives"]
    assert http.post("/detect", json={"q": "Where is the library, please?"}).json()[0]["language"] == "en"


def test_files(http: httpx2.Client) -> None:
    fields = {"source": "aa", "target": "bb"}
    for name, content, expected in (
        ("a b.txt", "su\r\n\nsu\n", "SU\r\n\nSU\n"),
        ("../x.srt", "1\n00:00:01,000 --> 00:00:02,000\nsu\n\n2\n", "1\n00:00:01,000 --> 00:00:02,000\nSU\n\n2\n"),
        ("page.HTML", "<p>su</p>", "<p>SU</p>"),
        ("empty.txt", "", ""),
    ):
        made = http.post("/translate_file", data=fields, files={"file": (name, content.encode())})
        assert made.status_code == 200, made.text
        fetched = http.get(made.json()["translatedFileUrl"])
        assert fetched.content.decode() == expected
        assert re.fullmatch(r'attachment; filename="[A-Za-z0-9._-]+_bb\.\w+"', fetched.headers["content-disposition"])
    document = docx.Document()
    document.add_paragraph("su").runs[0].bold = True
    document.save(written := io.BytesIO())
    made = http.post("/translate_file", data=fields, files={"file": ("letter.docx", written.getvalue())})
    letter = docx.Document(io.BytesIO(http.get(made.json()["translatedFileUrl"]).content))
    assert [(run.text, run.bold) for run in letter.paragraphs[0].runs] == [("SU", True)]
    for name, given, message in (
        ("x.exe", b"su", "Invalid request: file format not supported; give one of .txt, .srt, .html, .docx"),
        ("x.txt", b"\xff", "Invalid request: the file is not valid UTF-8"),
        ("x.docx", b"su", "Invalid request: the file is not a Word document (.docx) that can be read"),
        ("x.txt", b"a" * 5001, "Invalid request: a line of the file exceeds text limit (5000)"),
    ):
        refused = http.post("/translate_file", data=fields, files={"file": (name, given)})
        assert (refused.status_code, refused.json()) == (400, {"error": message})
    assert http.post("/translate_file", data=fields).json() == {"error": "Invalid request: missing file parameter"}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no text": ({"q": ""}, "Invalid request: missing q parameter"),
    "no texts": ({"q": []}, "Invalid request: missing q parameter"),
    "no source": ({"source": None}, "Invalid request: missing source parameter"),
    "no target": ({"target": ""}, "Invalid request: missing target parameter"),
    "alternatives": ({"alternatives": "abc"}, "Invalid request: alternatives parameter is not a number"),
    "alternatives of a kind": ({"alternatives": {}}, "Invalid request: alternatives parameter is not a number"),
    "too many alternatives": ({"alternatives": 6}, "Invalid request: alternatives parameter must be <= 5"),
    "no string": ({"q": [1]}, "Invalid request: q parameter must be a text or a list of texts"),
    "nested": ({"q": [[]]}, "Invalid request: q parameter must be a text or a list of texts"),
    "long": ({"q": "a" * 5001}, "Invalid request: request (5001) exceeds text limit (5000)"),
    "many": ({"q": ["a"] * 65}, "Invalid request: request (65) exceeds text limit (64)"),
    "unknown source": ({"source": "zz"}, "zz is not supported"),
    "unknown target": ({"target": "zz"}, "zz is not supported"),
    "code": ({"source": 1}, "Invalid request: source parameter must be a language code"),
    "format": ({"format": "xml"}, "xml format is not supported"),
}


@pytest.mark.parametrize(("fields", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_wrong_is_said_as_libretranslate_says_it(
    http: httpx2.Client, fields: dict[str, Any], message: str
) -> None:
    response = ask(http, **fields)
    assert (response.status_code, response.json()) == (400, {"error": message})


OWN = {
    "an unknown key": {"texts": ["a"], "nbst": 2},
    "no texts": {"texts": []},
    "a beam": {"texts": ["a"], "search": {"kind": "beam", "size": 17}},
    "a file": {"texts": ["a"], "search": {"kind": "refine", "rescore": "/etc/passwd"}},
    "a kind": {"texts": ["a"], "search": {"kind": "none"}},
    "prefixes": {"texts": ["a"], "prefixes": ["a", "b"]},
}


@pytest.mark.parametrize("body", OWN.values(), ids=OWN.keys())
def test_the_own_interface_refuses_too(http: httpx2.Client, body: dict[str, Any]) -> None:
    response = http.post("/v1/translate", json=body)
    assert response.status_code == 400, response.text
    assert "/" not in response.json()["error"].replace("<=", "")


def test_other_refusals(http: httpx2.Client, address: str) -> None:
    assert http.get("/translate").status_code == 405
    assert http.get("/nothing").json() == {"error": "Not Found"}
    assert http.post("/suggest").json() == {"error": "Suggestions are disabled on this server."}
    assert http.get("/download_file/none").status_code == 404
    assert http.post("/v1/translate", json={"texts": ["a"], "model": "none"}).status_code == 404
    assert http.post("/translate", content=b"[1]").json() == {"error": "Invalid JSON format"}
    assert http.get("/health", headers={"host": "evil.example"}).status_code == 421
    assert ask(http, q="su").headers["x-content-type-options"] == "nosniff"
    assert http.post("/translate", json={"q": "su"}, headers={"origin": "http://["}).status_code == 403
    pieces = ask(http, q=["a<p>" * 1200] * 2, format="html")
    assert "exceeds limit (2000)" in pieces.json()["error"]
    utf7 = {"content-type": "multipart/form-data; boundary=x; charset=utf-7"}
    half = b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\n+2AA-\r\n--x--\r\n'
    assert http.post("/translate", content=half, headers=utf7).status_code == 400
    foreign = http.post("/translate", json={"q": "su"}, headers={"origin": "https://evil.example"})
    assert (foreign.status_code, "access-control-allow-origin" in foreign.headers) == (403, False)
    assert http.post("/translate", content=b"x" * (2 << 20)).status_code == 413
    chunked = http.post("/translate", content=(b"x" * 65536 for _ in range(40)))
    assert chunked.status_code == 413
    assert http.get("/health?" + "x" * 9000).status_code == 414
    with Client(address) as client, pytest.raises(ServerError, match="zz is not supported") as refused:
        client.translate("a", "zz", "bb")
    assert refused.value.status == 400


def test_a_worker_that_dies_is_replaced(http: httpx2.Client) -> None:
    before = _metric(http, "worker_deaths_total")
    (worker,) = _workers()
    os.kill(worker, signal.SIGKILL)
    assert ask(http).status_code == 200, "the text is tried again by the next worker"
    assert _metric(http, "worker_deaths_total") == before + 1


def _metric(http: httpx2.Client, name: str) -> int:
    match = re.search(rf"^qkv_{name} (\d+)$", http.get("/metrics").text, re.M)
    assert match
    return int(match[1])


def _workers() -> list[int]:
    """The worker processes of this module's server; others may run for tests in a browser."""
    listed = subprocess.run(["ps", "-ewwo", "pid,ppid,args"], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()[1:]]
    servers = {pid for pid, parent, command in rows if parent == str(os.getpid()) and SECONDS in command}
    return [int(pid) for pid, parent, command in rows if parent in servers and "qkv.serving.workers.worker" in command]


def test_a_model_that_cannot_be_loaded_ends_the_server() -> None:
    command = [sys.executable, "-c", "from qkv.cli import main; main()", "serve", f"{MODEL}=aa-bb", "port=0"]
    ended = subprocess.run([*command, "models.0.engine=none"], capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode in (1, 2)
    assert "engine" in ended.stderr.splitlines()[-1]
    assert "Traceback" not in ended.stderr


def test_keys_origins_and_slow_clients(tmp_path: Path) -> None:
    key = add_key(tmp_path / "keys", "ada", 0)
    slow = add_key(tmp_path / "keys", "bob", 2)
    slowly = "limits.body_seconds=0.5", "limits.header_seconds=0.5"
    settings = "workers=1", f"keys={tmp_path / 'keys'}", "origins=[https://ok.example]", "metrics=false", *slowly
    with serving(*settings) as address:
        with httpx2.Client(base_url=address, timeout=60) as http:
            assert ask(http).json() == {"error": "Invalid API key"}
            assert ask(http, api_key="wrong").status_code == 403
            assert ask(http, api_key=key).status_code == 200
            bearer = {"authorization": f"Bearer {key}", "origin": "https://ok.example"}
            allowed = http.post("/translate", json={"q": "su", "source": "aa", "target": "bb"}, headers=bearer)
            assert allowed.headers["access-control-allow-origin"] == "https://ok.example"
            assert [ask(http, api_key=slow).status_code for _ in range(3)] == [200, 200, 429]
            assert http.get("/metrics").status_code == 404
        _send_slowly(address)


def _connected(address: str) -> socket.socket:
    host, _, port = address.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=60)


def _send_slowly(address: str) -> None:
    """Headers that never end, and a body that does not come: both connections are ended, and others are served."""
    with _connected(address) as headers, _connected(address) as body:
        headers.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        body.sendall(b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        assert httpx2.get(f"{address}/health").status_code == 200
        assert headers.recv(1024) == b""
        assert body.recv(1024).startswith(b"HTTP/1.1 408 ")


def test_the_work_of_clients_that_leave_is_stopped(http: httpx2.Client, address: str) -> None:
    """Long texts, which would take much longer than it takes to stop them."""
    before = {name: _metric(http, f"{name}_total") for name in ("cancelled", "stopped_batches")}
    fields = {"texts": ["minesu " * 600] * 64, "search": {"kind": "beam", "size": 16}}
    body = json.dumps(fields).encode()
    with _connected(address) as leaving:
        leaving.sendall(
            f"POST /v1/translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        )
        leaving.sendall(body)
        while not _metric(http, "running_batches"):
            time.sleep(0.01)
    while _metric(http, "running_batches"):
        time.sleep(0.01)
    assert _metric(http, "cancelled_total") == before["cancelled"] + 1
    assert _metric(http, "stopped_batches_total") == before["stopped_batches"] + 1
    assert _metric(http, "waiting_texts") == 0
    assert ask(http).status_code == 200


def test_the_death_of_an_idle_worker_is_noticed(http: httpx2.Client) -> None:
    assert ask(http).status_code == 200
    before = _metric(http, "worker_deaths_total")
    (worker,) = _workers()
    os.kill(worker, signal.SIGKILL)
    while _metric(http, "worker_deaths_total") == before:
        time.sleep(0.01)
    while http.get("/health/ready").status_code != 200:
        time.sleep(0.05)
    assert _workers() != [worker]


def test_inline_tags_go_where_their_words_go(http: httpx2.Client) -> None:
    """The model of the tests writes the words in reverse."""
    answer = ask(http, q="<p>kalo <b>minesu</b> ta</p>", format="html")
    assert answer.json()["translatedText"] == "<p>TA <b>MINESU</b> KALO</p>"
    answer = ask(http, q="<p><i>kalo</i> minesu ta</p>", format="html")
    assert answer.json()["translatedText"] == "<p>TA MINESU <i>KALO</i></p>"

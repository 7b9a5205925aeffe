"""Requests byte for byte as Mastodon and Weblate send them, and their answers read as these programs read them.

Mastodon: `TranslationService::LibreTranslate`, `TranslateStatusService` and `Request` (Ruby, http.rb). Weblate:
`LibreTranslateTranslation` and `BatchMachineTranslation` (Python, before 2026 with requests, then with httpx2).
Then names that point outside of what a server serves, where programs and people put names.
"""

import base64
import hashlib
import json
import re
import socket
from collections.abc import Iterator
from http.client import HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import httpx2
import pytest

from tests.support.server import MODEL, RunningServer, running

KEYS: list[str | None] = [None, "", "a-key"]
"""What is sent where no key is needed."""


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running(f"{MODEL}=aa-bb", "models.0.engine=torch", "workers=1", "limits.seconds=120") as found:
        yield found


def answer_to(server: RunningServer, request: bytes) -> tuple[HTTPResponse, Any]:
    """The answer to these bytes, and the JSON in it."""
    host, _, port = server.address.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=120) as client:
        client.sendall(request)
        response = HTTPResponse(client)
        response.begin()
        return response, json.loads(response.read())


def mastodon(server: RunningServer, verb: str, path: str, body: str | None = None) -> tuple[HTTPResponse, Any]:
    """As http.rb writes a request of Mastodon's: the host without its port, a digest of the body, and a date."""
    head = [
        f"{verb} {path} HTTP/1.1",
        "User-Agent: http.rb/5.2.0 (Mastodon/4.3.1; +https://mastodon.example/)",
        "Host: 127.0.0.1",
        "Date: Wed, 18 Nov 2026 06:00:00 GMT",
        "Accept-Encoding: gzip",
    ]
    if body is not None:
        head.append(f"Digest: SHA-256={base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()}")
    head += ["Content-Type: application/json", "Connection: close"]
    head += [] if body is None else [f"Content-Length: {len(body.encode())}"]
    return answer_to(server, "\r\n".join([*head, "", body or ""]).encode())


STATUS = [
    '<p>kalo <a href="https://mastodon.example/@su" class="u-url mention">@<span>su</span></a> ta</p><p>ne</p>',
    'su <span translate="no">:blobcat:</span>',
    "kalo &amp; ta",
    "",
]
"""A post in HTML, its warning with an emoji that must stay, an escaped option of a poll, a picture without words."""


@pytest.mark.parametrize("key", KEYS)
def test_mastodon_translates_a_post(server: RunningServer, key: str | None) -> None:
    fields = {"q": STATUS, "source": "aa", "target": "bb", "format": "html", "api_key": key}
    response, answer = mastodon(server, "POST", "/translate", json.dumps(fields, ensure_ascii=False))
    assert (response.status, set(answer)) == (200, {"translatedText"})
    # It reads the body in the charset of the header, else as bytes, and takes no more than a megabyte.
    assert response.headers["content-type"] == "application/json"
    content, warning, option, nothing = answer["translatedText"]
    assert content.count("<p>") == content.count("</p>") == 2
    assert 'href="https://mastodon.example/@su" class="u-url mention"' in content
    assert '<span translate="no">:blobcat:</span>' in warning
    assert "SU" in warning
    assert "&amp;" in option or "&" not in option, "it is put into a page"
    assert nothing == ""


def test_mastodon_asks_for_the_language_too(server: RunningServer) -> None:
    fields = {"q": ["<p>su</p>", "kalo"], "source": "auto", "target": "bb", "format": "html", "api_key": None}
    response, answer = mastodon(server, "POST", "/translate", json.dumps(fields))
    assert response.status == 200
    found = zip(answer["translatedText"], answer["detectedLanguage"], strict=True)
    assert [(text, each["language"]) for text, each in found] == [("<p>SU</p>", "aa"), ("KALO", "aa")]


def test_mastodon_asks_which_languages_there_are(server: RunningServer) -> None:
    response, answer = mastodon(server, "GET", "/languages")
    assert response.status == 200
    offered = {each["code"]: [code for code in each["targets"] if code != each["code"]] for each in answer}
    assert offered["aa"] == ["bb"], "it offers to translate a post in aa to bb"


def test_mastodon_of_earlier_versions(server: RunningServer) -> None:
    """Until 4.1 it sent one text, and took one."""
    fields = {"q": "<p>kalo minesu</p>", "source": "aa", "target": "bb", "format": "html", "api_key": ""}
    _, answer = mastodon(server, "POST", "/translate", json.dumps(fields))
    assert answer == {"translatedText": "<p>MINESU KALO</p>"}


WEBLATE = {
    "User-Agent": "Weblate/5.15",
    "Referer": "https://weblate.example",
    "Accept": "application/json; charset=utf-8",
    "Accept-Encoding": "gzip, deflate",
    "Connection": "keep-alive",
}


def weblate(server: RunningServer, verb: str, path: str, kind: str = "", body: bytes = b"") -> tuple[HTTPResponse, Any]:
    host = server.address.removeprefix("http://")
    more = {"Content-Length": len(body), "Content-Type": kind} if body else {}
    lines = [
        f"{verb} {path} HTTP/1.1",
        *(f"{name}: {value}" for name, value in ({"Host": host} | WEBLATE | more).items()),
    ]
    return answer_to(server, "\r\n".join([*lines, "", ""]).encode() + body)


@pytest.mark.parametrize("key", ["", "a-key"])
def test_weblate_translates_several_strings(server: RunningServer, key: str) -> None:
    """As JSON, in batches of twenty; placeholders of a format are written as [X12X]."""
    texts = ["kalo minesu", "su [X3X] ta", "ne\nta", *(f"kalo {'su ' * number}" for number in range(17))]
    body = json.dumps({"api_key": key, "q": texts, "source": "aa", "target": "bb"}).encode()
    response, payload = weblate(server, "POST", "/translate", "application/json", body)
    assert response.status == 200
    translated = payload["translatedText"]
    assert {text: translated[index] for index, text in enumerate(texts)}["kalo minesu"] == "MINESU KALO"
    assert len(translated) == len(texts)


def test_weblate_of_earlier_versions(server: RunningServer) -> None:
    """One string, as a form, whose key is perhaps empty."""
    body = urlencode({"api_key": "", "q": "kalo minesu", "source": "aa", "target": "bb"}).encode()
    response, payload = weblate(server, "POST", "/translate", "application/x-www-form-urlencoded", body)
    assert (response.status, payload) == (200, {"translatedText": "MINESU KALO"})


def test_weblate_finds_both_languages_of_a_pair(server: RunningServer) -> None:
    """It translates between two languages only if both are among the codes, even one that is only a target."""
    response, payload = weblate(server, "GET", "/languages")
    assert response.status == 200
    assert {"aa", "bb"} <= {each["code"] for each in payload}


def test_weblate_shows_why_it_is_refused(server: RunningServer) -> None:
    """Its check of new settings translates a word from English to German."""
    body = json.dumps({"api_key": "", "q": ["test"], "source": "en", "target": "de"}).encode()
    response, payload = weblate(server, "POST", "/translate", "application/json", body)
    assert (response.status, payload["error"]) == (400, "en is not supported")


SECRET = "what nobody may read"
OUTSIDE = [
    "../secret.txt", "..\\secret.txt", "../../secret.txt", "....//secret.txt", "..././secret.txt", "./../secret.txt",
    "%2e%2e/secret.txt", "%2e%2e%2fsecret.txt", "..%2fsecret.txt", "..%5csecret.txt", "%252e%252e%252fsecret.txt",
    "..%c0%afsecret.txt", "..%ef%bc%8fsecret.txt", "%2e%2e%5csecret.txt", "..;/secret.txt", "../secret.txt%00.txt",
    "../secret.txt\0.txt", "..\u2215secret.txt", "..\u2044secret.txt", "\uff0e\uff0e/secret.txt", "{secret}",
    "file://{secret}", "/proc/self/environ", "/proc/self/cwd/secret.txt", "/dev/zero", "/etc/passwd", "/etc/passwd.txt",
    "C:\\secret.txt", "C:/secret.txt", "\\\\host\\share\\secret.txt", "\\\\?\\C:\\secret.txt", "//host/secret.txt",
    "~/secret.txt", "~root/secret.txt", "$HOME/secret.txt", "link.txt", "hard.txt", "secret.txt.", "secret.txt ",
    "secret.txt::$DATA", "con.txt", ".", "..", "a" * 4096 + ".txt", "../" * 300 + "etc/passwd", "-rf.txt",
    "http://localhost:1/secret.txt", "data:text/plain,secret.txt", "|cat secret.txt", "`cat secret.txt`.txt",
]  # fmt: skip


def test_names_that_point_outside_read_and_write_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the name of a model, of an uploaded file, of a result, of a language and of a page."""
    (tmp_path / "secret.txt").write_text(SECRET)
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "link.txt").symlink_to(tmp_path / "secret.txt")
    (inside / "hard.txt").hardlink_to(tmp_path / "secret.txt")
    monkeypatch.chdir(inside)
    before = sorted(tmp_path.rglob("*"))
    with (
        running(f"{MODEL}=aa-bb", "models.0.engine=torch", "workers=1", "limits.seconds=120") as server,
        httpx2.Client(base_url=server.address, timeout=120) as http,
    ):
        for name in (payload.replace("{secret}", str(tmp_path / "secret.txt")) for payload in OUTSIDE):
            _refuses(server, http, name)
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "secret.txt").read_text() == SECRET


def _refuses(server: RunningServer, http: httpx2.Client, name: str) -> None:
    model = http.post("/v1/translate", json={"texts": ["su"], "model": name})
    compared = http.post("/v1/see", json={"text": "su", "model": name})
    search = http.post("/v1/translate", json={"texts": ["su"], "search": {"kind": "refine", "rescore": name}})
    language = http.post("/translate", json={"q": "su", "source": name, "target": "bb"})
    assert (model.status_code, compared.status_code, search.status_code) == (404, 404, 400)
    assert language.status_code == 400
    # Not through the client, which would resolve the dots itself.
    fetched = [_fetched(server, f"/{place}/{quote(name, safe='/%.:;~$')}") for place in ("download_file", "page", "v1")]
    assert all(re.match(rb"HTTP/1.1 4(00|04|14) ", answer) for answer in fetched)
    assert not any(SECRET.encode() in answer or b"root:" in answer for answer in fetched)
    upload = {"file": (name, b"su", "text/plain")}
    sent = http.post("/translate_file", data={"source": "aa", "target": "bb"}, files=upload)
    answers = [model, compared, search, language, sent]
    if sent.status_code == 200:
        result = http.get(sent.json()["translatedFileUrl"])
        saved = re.fullmatch(r'attachment; filename="([A-Za-z0-9._-]{1,100})"', result.headers["content-disposition"])
        assert saved
        assert result.content == b"SU"
        answers.append(result)
    else:
        assert sent.status_code == 400
    assert not any(SECRET in answer.text or "root:" in answer.text for answer in answers)


def _fetched(server: RunningServer, path: str) -> bytes:
    host, _, port = server.address.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=120) as client:
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        return b"".join(iter(lambda: client.recv(65536), b""))

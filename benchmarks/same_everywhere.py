"""The same texts through the command line, Python, REST, both clients and the page: every answer is the same.

    pip install 'qkv[serve,client]' playwright     # and a Chromium, or its path in QKV_CHROMIUM
    python benchmarks/same_everywhere.py es-en --texts test.spa --source es --target en --count 200

Prints how many texts were compared, and exits with 1 if an answer differs. The page is the real one in a real browser:
each text is put into its text field, and what it then shows is read.
"""

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
from served import served

from qkv import Translator
from qkv.client import AsyncClient, Client

QKV = [sys.executable, "-c", "from qkv.cli import main; main()"]
AT_ONCE = 50
SECONDS = 120
"""How long a request may take."""
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "chrome")


def by_command(model: str, texts: list[str]) -> list[dict[str, Any]]:
    """`qkv translate --json`."""
    given = "".join(f"{text}\n" for text in texts)
    command = [*QKV, "translate", model, "--json"]
    written = subprocess.run(command, input=given, capture_output=True, text=True, check=True).stdout
    found = [json.loads(line) for line in written.splitlines()]
    return [{key: value for key, value in each.items() if key != "line"} for each in found]


def by_rest(address: str, texts: list[str]) -> list[dict[str, Any]]:
    """POST /v1/translate."""
    answer = httpx2.post(f"{address}/v1/translate", json={"texts": texts}, timeout=SECONDS).json()
    found: list[dict[str, Any]] = answer["translations"]
    return found


def by_libretranslate(address: str, texts: list[str], source: str, target: str) -> list[str]:
    """POST /translate."""
    fields = {"q": texts, "source": source, "target": target}
    found: list[str] = httpx2.post(f"{address}/translate", json=fields, timeout=SECONDS).json()["translatedText"]
    return found


def by_client(address: str, texts: list[str]) -> list[Any]:
    with Client(address, seconds=SECONDS) as client:
        return list(client.decode(texts))


def by_async_client(address: str, texts: list[str]) -> list[Any]:
    async def ask() -> list[Any]:
        async with AsyncClient(address, seconds=SECONDS) as client:
            return list(await client.decode(texts))

    return asyncio.run(ask())


def by_page(address: str, texts: list[str]) -> list[str]:
    """The page at /: what stands in it when it no longer says that it is waiting."""
    from playwright.sync_api import sync_playwright

    found = os.environ.get("QKV_CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUM)), None)
    if found is None:
        sys.exit("no Chromium; install one (apt-get install chromium), or name it by QKV_CHROMIUM")
    shown: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        page = browser.new_page()
        page.set_default_timeout(1000 * SECONDS)
        page.goto(address)
        page.locator(".speed").wait_for()
        for text in texts:
            page.locator("#source").fill(text)
            page.locator(".output:not(.stale) .words").wait_for()
            shown.append(page.locator(".words").text_content() or "")
        browser.close()
    return shown


def compare(model: str, address: str, texts: list[str], source: str, target: str) -> dict[str, int]:
    """How many answers differ from Python's, for each way: in their text, and in anything else."""
    python = json.loads(json.dumps([each.as_dict() for each in Translator(model).translate(texts)]))
    ways: dict[str, list[Any]] = {"command line": by_command(model, texts), "REST": [], "client": [], "async": []}
    libre: list[str] = []
    for first in range(0, len(texts), AT_ONCE):
        some = texts[first : first + AT_ONCE]
        ways["REST"] += by_rest(address, some)
        ways["client"] += by_client(address, some)
        ways["async"] += by_async_client(address, some)
        libre += by_libretranslate(address, some, source, target)
    texts_only = {"LibreTranslate's interface": libre, "page": by_page(address, texts)}
    found = {
        way: sum(a != b["text"] for a, b in zip(answers, python, strict=True)) for way, answers in texts_only.items()
    }
    for way, answers in ways.items():
        found[way] = sum(
            a["text"] != b["text"] or a["tokens"] != b["tokens"] for a, b in zip(answers, python, strict=True)
        )
    # A score is a sum of rounded numbers, and their order depends on what else is in the batch.
    apart = [abs(a["score"] - b["score"]) for each in ways.values() for a, b in zip(each, python, strict=True)]
    print(json.dumps({"largest difference of scores": max(apart)}))
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a model that comes with qkv")
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--count", type=int, default=200)
    given = parser.parse_args()
    lines = given.texts.read_text(encoding="utf-8").splitlines()[: given.count]
    with served(given.model) as address:
        differ = compare(given.model, address, lines, given.source, given.target)
    print(json.dumps({"texts": len(lines), "that differ": differ}))
    sys.exit(any(differ.values()))

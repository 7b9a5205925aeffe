"""Run the steps of deploy/Dockerfile without Docker: a new virtual environment, its pip steps, and its command.

    python deploy/check_image_steps.py [--keep FOLDER]

Copies what COPY copies, runs what RUN runs with /opt/qkv and /src below a temporary folder, starts ENTRYPOINT with CMD
on a free port, and asks the server. What only a container has (users, FROM, EXPOSE) is parsed and left out. Takes some
minutes, most of them for pip.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parents[1]
ONLY_IN_CONTAINERS = ("useradd",)


def instructions(text: str) -> list[tuple[str, str]]:
    """(name, arguments) of each instruction; lines that go on are joined, comments left out."""
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    joined = re.sub(r"\\\n\s*", " ", lines)
    return [(name, rest.strip()) for name, _, rest in (line.partition(" ") for line in joined.splitlines() if line)]


def build(root: Path, steps: list[tuple[str, str]]) -> None:
    """COPY and RUN of the first stage."""
    source = root / "src"
    source.mkdir(parents=True)
    for name, rest in steps:
        if name == "FROM" and "AS" not in rest.split():
            return
        if name == "COPY":
            *files, place = rest.split()
            for file in files:
                made = source / place / file if place == "./" else source / place
                copy = shutil.copytree if (ROOT / file).is_dir() else shutil.copy
                copy(ROOT / file, made)
        if name == "RUN" and not rest.startswith(ONLY_IN_CONTAINERS):
            command = rest.replace("/opt/qkv", str(root / "opt/qkv")).replace("python -m", f"{sys.executable} -m", 1)
            print(f"RUN {command}", file=sys.stderr)
            subprocess.run(command, shell=True, check=True, cwd=source)


def serve(root: Path, steps: list[tuple[str, str]]) -> None:
    """ENTRYPOINT with CMD, asked for its health and for a translation."""
    found = dict(steps)
    environment = dict(pair.split("=", 1) for pair in shlex.split(found["ENV"]))
    path = environment["PATH"].replace("/opt/qkv", str(root / "opt/qkv")).replace("$PATH", os.environ["PATH"])
    command = [*json.loads(found["ENTRYPOINT"]), *json.loads(found["CMD"]), "port=0"]
    command[0] = str(root / "opt/qkv/bin" / command[0])
    process = subprocess.Popen(
        command, env={**os.environ, **environment, "PATH": path}, stderr=subprocess.PIPE, text=True, cwd=root
    )
    try:
        assert process.stderr is not None
        match = re.search(r":(\d+)$", process.stderr.readline().strip())
        assert match, "the server does not start"
        address = f"http://127.0.0.1:{match[1]}"
        _wait(f"{address}/health/ready", process)
        body = json.dumps({"q": "No sé.", "source": "es", "target": "en"}).encode()
        # urllib says that a body is a form unless it is told otherwise.
        asked = urllib.request.Request(f"{address}/translate", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(asked, timeout=60) as response:
            print(response.read().decode())
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate()
    assert process.returncode == 0, "the server did not end well"


def _wait(address: str, process: "subprocess.Popen[str]") -> None:
    while process.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=60):
                return
        except OSError:
            time.sleep(0.2)
    raise SystemExit("the server ended before it was ready")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, help="build here, and leave it there")
    keep = parser.parse_args().keep
    todo = instructions((ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as temporary:
        place = (keep or Path(temporary)).resolve()
        build(place, todo)
        serve(place, todo)
    print("every step of the Dockerfile runs", file=sys.stderr)

"""What Ray costs: the same lines by `qkv translate` on this machine, and with `--on ray` on a cluster of its cores.

    python benchmarks/ray_batch.py [--lines 100000] [--model es-en] [--workers N]

Prints seconds by the clock and of the processors, of the command with all processes that it starts, and whether both
wrote the same. Processor time is what counts on a machine that does other things, too. It is sampled from /proc, so a
process that lives for less than half a second may be missed.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WORDS = (
    "el la un una gato perro casa libro agua vino niño mujer amigo ciudad calle coche mesa grande rojo azul viejo "
    "nuevo come bebe quiere tiene ve lee escribe no sí pero y que donde cuando mañana hoy siempre nunca aquí con sin"
)
PROGRAMS = {
    b"ray::MapWorker": "actors",
    b"ray::": "other workers",
    b"default_worker": "other workers",
    b"gcs_server": "gcs",
    b"log_monitor": "log monitor",
    b"monitor.py": "autoscaler",
    b"runtime_env": "agents",
    b"dashboard": "agents",
    b"raylet": "raylet",
}
"""What the processes of Ray are, by a part of their command lines."""
TICK = os.sysconf("SC_CLK_TCK")
EVERY = 0.25


def write_lines(path: Path, count: int) -> None:
    source, words = random.Random(1), WORDS.split()
    with path.open("w") as file:
        for _ in range(count):
            file.write(" ".join(source.choices(words, k=source.randint(3, 14))) + "\n")


def descendants(root: int) -> dict[tuple[int, str], float]:
    """The processor seconds of a process and of those that it has started, by process and what it is."""
    parents, spent, names = {}, {}, {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue  # it has just ended
        parents[int(entry.name)] = int(fields[1])
        names[int(entry.name)] = next((name for part, name in PROGRAMS.items() if part in command), "others")
        spent[int(entry.name)] = (int(fields[11]) + int(fields[12])) / TICK
    family = {root}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    names[root] = "command"
    return {(pid, names[pid]): spent[pid] for pid in family if pid in spent}


def timed(*command: object) -> tuple[float, float, dict[str, float]]:
    """Seconds by the clock and of the processors, and the latter by what the processes are."""
    began = time.monotonic()
    process = subprocess.Popen([sys.executable, "-c", "from qkv.cli import main; main()", *map(str, command)])
    spent: dict[tuple[int, str], float] = {}
    while process.poll() is None:
        spent |= descendants(process.pid)
        time.sleep(EVERY)
    if process.returncode:
        sys.exit(f"qkv {command[0]} has failed")
    # A process is an actor from some moment on: what it has spent in all counts.
    last = {pid: (name, seconds) for (pid, name), seconds in sorted(spent.items(), key=lambda item: item[1])}
    parts: dict[str, float] = {}
    for name, seconds in last.values():
        parts[name] = parts.get(name, 0.0) + seconds
    return time.monotonic() - began, sum(parts.values()), parts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--model", default="es-en")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("settings", nargs="*", help="of qkv translate, such as search.size=4")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lines, alone, parts = (Path(folder) / name for name in ("lines.txt", "alone.txt", "parts"))
        write_lines(lines, given.lines)
        same = ("translate", given.model, *given.settings, "--input", lines, "--workers", given.workers)
        local = timed(*same, "--output", alone)
        ray = timed(*same, "--output", parts, "--on", "ray")
        written = b"".join(part.read_bytes() for part in sorted(parts.glob("part-*")))
        print(f"{given.lines:,} lines, {given.workers} workers, {given.model} {' '.join(given.settings)}")
        print("           seconds  processor seconds")
        print(f"local     {local[0]:8.1f}  {local[1]:17.1f}")
        print(f"on ray    {ray[0]:8.1f}  {ray[1]:17.1f}")
        print(f"overhead  {100 * (ray[0] / local[0] - 1):7.1f}%  {100 * (ray[1] / local[1] - 1):16.1f}%")
        print("processor seconds on ray: " + ", ".join(f"{name} {own:.1f}" for name, own in sorted(ray[2].items())))
        print("the same output" if written == alone.read_bytes() else "THE OUTPUTS DIFFER")


if __name__ == "__main__":
    main()

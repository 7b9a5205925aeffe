"""Two machines train together and the network between them is cut: what does each of them do, and how soon?

    python benchmarks/lost_node.py --sharding full          needs root: the machines are network namespaces

A worker of torchrun runs in each of two namespaces, joined by a virtual cable. When the run has got to `--cut-at`, the
cable is pulled: nothing is closed, packets just no longer arrive. Machine A, which has torchrun's meeting point, is to
give up B after `training.timeout` seconds and to go on alone from the last checkpoint; B, cut off from the meeting
point, is to end with a sentence. In the end the batches and losses are compared with those of a run of one process.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from word_pairs import write_reversals

from qkv.training.run.folder import read_metrics

RECIPE = """
data: {{root: {root}, train: {{kind: tsv, path: pairs.tsv}}}}
run: {root}/run
text: {{shared: char}}
batch: {{tokens: 400}}
model: {{d_model: 32, d_ff: 64, num_heads: 4, encoder_layers: 1, decoder_layers: 1, dropout: 0}}
training: {{stop_after: {updates}u, save_every: 5u, device: cpu, threads: 1, timeout: {timeout}, sharding: {sharding}}}
"""
SENTENCE = "qkv: a worker process ended unexpectedly or cannot be reached"
SUBNET = "10.254.77"
TCP_RETRIES = 6
"""How often the kernel sends a packet again that is not answered: about 25 seconds in all."""
ALLOWED = 5e-3
"""How far apart losses may be from those of one process."""


@dataclass(frozen=True)
class Machine:
    """A network namespace with one end of the cable."""

    name: str
    address: str

    def run(self, *command: str) -> None:
        subprocess.run(["ip", "netns", "exec", self.name, *command], check=True)

    def start(self, command: list[str], log: Path) -> subprocess.Popen[bytes]:
        """In a session of its own, so that all of it can be ended."""
        environment = {**os.environ, "GLOO_SOCKET_IFNAME": self.name, "OMP_NUM_THREADS": "1"}
        with log.open("wb") as file:
            whole = ["ip", "netns", "exec", self.name, *command]
            return subprocess.Popen(whole, stdout=file, stderr=file, env=environment, start_new_session=True)


@contextmanager
def two_machines() -> Iterator[tuple[Machine, Machine]]:
    """Joined by a cable whose ends are named like the machines."""
    first, second = (Machine(f"qkv{end}{os.getpid()}", f"{SUBNET}.{end}") for end in (1, 2))
    try:
        for machine in (first, second):
            subprocess.run(["ip", "netns", "add", machine.name], check=True)
        cable = ["ip", "link", "add", first.name, "netns", first.name, "type", "veth"]
        subprocess.run([*cable, "peer", "name", second.name, "netns", second.name], check=True)
        for machine in (first, second):
            machine.run("ip", "address", "add", f"{machine.address}/24", "dev", machine.name)
            machine.run("ip", "link", "set", "lo", "up")
            machine.run("ip", "link", "set", machine.name, "up")
            # A client of torchrun's store waits until the kernel gives the connection up, by default after 15 minutes.
            machine.run("sysctl", "-qw", f"net.ipv4.tcp_retries2={TCP_RETRIES}")
        yield first, second
    finally:
        for machine in (first, second):
            subprocess.run(["ip", "netns", "delete", machine.name], check=False)


def updates(run: Path) -> list[tuple[int, str, float]]:
    if not (run / "metrics.jsonl").exists():
        return []
    lines = read_metrics(run / "metrics.jsonl")
    return [(line["update"], line["batch"], line["loss"]) for line in lines if "batch" in line]


def wait_for(events: dict[str, Callable[[], bool]], longest: float) -> Iterator[tuple[str, float]]:
    """Each event when it happens, and after how many seconds; raises TimeoutError when the last one takes too long."""
    began, missing = time.monotonic(), dict(events)
    while missing:
        passed = time.monotonic() - began
        if passed > longest:
            raise TimeoutError
        for event in [event for event, happened in missing.items() if happened()]:
            del missing[event]
            yield event, passed
        time.sleep(0.1)


def torchrun(machine: Machine, meeting: str, root: Path) -> list[str]:
    launch = [sys.executable, "-m", "torch.distributed.run", "--nnodes=1:2", "--nproc-per-node=1", "--max-restarts=3"]
    launch += ["--rdzv-backend=c10d", f"--rdzv-endpoint={meeting}:29500", f"--local-addr={machine.address}"]
    # It knows its own machine by the host's name, which is the same in both namespaces. By default it waits 30 seconds
    # for more machines, and 60 for an answer of the meeting point.
    is_host = int(machine.address == meeting)
    launch += [f"--rdzv-conf=is_host={is_host},last_call_timeout=5,read_timeout=30", "--rdzv-id=lost-node"]
    return [*launch, str(root / "train.py"), "train", str(root / "recipe.yaml")]


def lose(root: Path, cut_at: int, longest: float) -> None:
    """Train in both namespaces and pull the cable; prints what happened when."""
    run, logs = root / "run", [root / "a.log", root / "b.log"]

    def reached() -> int:
        return max((number for number, *_ in updates(run)), default=0)

    with two_machines() as (first, second):
        agents = [
            machine.start(torchrun(machine, first.address, root), log)
            for machine, log in zip((first, second), logs, strict=True)
        ]
        try:
            list(wait_for({"trains": lambda: reached() >= cut_at}, longest))
            second.run("ip", "link", "set", second.name, "down")
            before = reached()
            print(f"update {before}: the cable is pulled", flush=True)
            events = {
                "the worker of A has ended": lambda: SENTENCE in logs[0].read_text(),
                "the worker of B has ended": lambda: SENTENCE in logs[1].read_text(),
                "A is at a new update": lambda: (
                    logs[0].read_text().count("batches per epoch") == 2 and reached() > before
                ),
                "torchrun of B has ended": lambda: agents[1].poll() is not None,
                "torchrun of A has ended": lambda: agents[0].poll() is not None,
            }
            for event, seconds in wait_for(events, longest):
                print(f"{seconds:5.0f} s  {event}", flush=True)
            print(f"exit codes: A {agents[0].returncode}, B {agents[1].returncode}; the sentence of both workers:")
            print(next(line for line in logs[1].read_text().splitlines() if SENTENCE in line), flush=True)
        except TimeoutError:
            print("\n".join(f"{log.name}:\n{log.read_text(errors='replace')[-6000:]}" for log in logs))
            sys.exit(f"not all that should happen did in {longest:.0f} seconds")
        finally:
            for agent in agents:
                if agent.poll() is None:
                    os.killpg(agent.pid, signal.SIGKILL)
                    agent.wait()


def compare(root: Path) -> bool:
    """With the run of one process."""
    one = [sys.executable, str(root / "train.py"), "train", str(root / "recipe.yaml")]
    subprocess.run([*one, f"run={root / 'straight'}", "training.workers=1"], check=True, capture_output=True)
    ours, theirs = updates(root / "run"), updates(root / "straight")
    same = [line[:2] for line in ours] == [line[:2] for line in theirs]
    apart = max((abs(one[2] - other[2]) for one, other in zip(ours, theirs, strict=False)), default=1.0)
    print(
        f"{len(ours)} updates, batches {'the same' if same else 'OTHERS'} as of one process, losses within {apart:.1e}"
    )
    return same and apart < ALLOWED


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=60)
    parser.add_argument("--cut-at", type=int, default=22)
    parser.add_argument("--timeout", type=int, default=20, help="training.timeout")
    parser.add_argument("--sharding", choices=["none", "full"], default="none")
    parser.add_argument("--longest", type=float, default=300, help="seconds to wait for anything to happen")
    options = parser.parse_args()
    if os.geteuid() or not shutil.which("ip"):
        sys.exit("network namespaces need root and the command ip (package iproute2)")
    with tempfile.TemporaryDirectory(prefix="qkv-lost-") as folder:
        root = Path(folder)
        write_reversals(root / "pairs.tsv")
        (root / "train.py").write_text("from qkv.cli import main; main()\n")
        settings = {"updates": options.updates, "timeout": options.timeout, "sharding": options.sharding}
        (root / "recipe.yaml").write_text(RECIPE.format(root=root, **settings))
        lose(root, options.cut_at, options.longest)
        sys.exit(not compare(root))


if __name__ == "__main__":
    main()

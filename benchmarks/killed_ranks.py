"""Kill a rank of a run under torchrun again and again: is the run that goes on the one that was never touched?

python benchmarks/killed_ranks.py --ranks 2 --kills 3
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from word_pairs import write_reversals

from qkv.config import load_config
from qkv.training.progress import SilentTrainingReporter
from qkv.training.recipe import Recipe
from qkv.training.run.folder import read_metrics
from qkv.training.trainer import Trainer

RECIPE = """
data: {{root: {root}, train: {{kind: tsv, path: pairs.tsv}}}}
run: {root}/run
text: {{shared: char}}
batch: {{tokens: 200}}
model: {{d_model: 32, d_ff: 64, num_heads: 4, encoder_layers: 1, decoder_layers: 1}}
training: {{stop_after: {updates}u, save_every: 5u, device: cpu, threads: 1, sharding: {sharding}}}
"""
PROGRAM = "import os, pathlib\npathlib.Path({pids!r}, os.environ['RANK']).write_text(str(os.getpid()))\n"
PROGRAM += "from qkv.cli import main; main()\n"


def updates(run: Path) -> list[tuple[int, float, str]]:
    if not (run / "metrics.jsonl").exists():
        return []
    return [
        (line["update"], line["loss"], line["batch"]) for line in read_metrics(run / "metrics.jsonl") if "batch" in line
    ]


def killed_run(root: Path, ranks: int, kills: int, total: int) -> int:
    """The exit code of torchrun; a rank at a time is killed whenever the run has got further."""
    pids = root / "pids"
    pids.mkdir()
    (root / "train.py").write_text(PROGRAM.format(pids=str(pids)))
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    command = [*launch, f"--max-restarts={kills}", str(root / "train.py"), "train", str(root / "recipe.yaml")]
    with (root / "log.txt").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    draw = random.Random(1)
    for kill in range(kills):
        wanted = (kill + 1) * total // (kills + 1)
        while process.poll() is None and not any(number >= wanted for number, *_ in updates(root / "run")):
            time.sleep(0.05)
        rank = draw.randrange(ranks)
        print(f"update {wanted} reached, rank {rank} killed", flush=True)
        os.kill(int((pids / str(rank)).read_text()), signal.SIGKILL)
        time.sleep(1)
    return process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--updates", type=int, default=400)
    parser.add_argument("--sharding", choices=["none", "full"], default="none")
    options = parser.parse_args()
    os.environ["QKV_MAX_WORKERS"] = str(options.ranks)
    with tempfile.TemporaryDirectory(prefix="qkv-killed-") as folder:
        root = Path(folder)
        write_reversals(root / "pairs.tsv")
        text = RECIPE.format(root=root, updates=options.updates, sharding=options.sharding)
        (root / "recipe.yaml").write_text(text)
        code = killed_run(root, options.ranks, options.kills, options.updates)
        if code:
            sys.exit((root / "log.txt").read_text())
        changes = [f"run={root / 'straight'}", f"training.workers={options.ranks}"]
        Trainer(load_config(Recipe, root / "recipe.yaml", changes), SilentTrainingReporter()).train()
        same = updates(root / "run") == updates(root / "straight")
        print(
            f"{options.kills} kills, {options.updates} updates: " + ("the same bit for bit" if same else "NOT the same")
        )
        sys.exit(not same)


if __name__ == "__main__":
    main()

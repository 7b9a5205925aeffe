"""Under torchrun: one process leads, the others follow, and the run is that of local workers."""

import subprocess
import sys
from pathlib import Path

from tests.support.tiny import changed, plain, updates_of, write_data, write_recipe


def test_torchrun_equals_local_workers(tmp_path: Path) -> None:
    data = write_data(tmp_path / "data")
    local = changed(plain(data, tmp_path / "local", 4), training={"workers": 2})
    cluster = plain(data, tmp_path / "cluster", 4)
    train = "from qkv.cli import main; main()"
    # A process that ends with open connections is aborted now and then. Each answer is one write, line end included:
    # torchrun's processes do not buffer, and the two would run into each other.
    answer = "lambda: print(f'{dist.is_initialized()}\\n', end='')"
    closed = f"import atexit; import torch.distributed as dist; atexit.register({answer})"
    command = [sys.executable, "-c", train, "train", str(write_recipe(tmp_path / "local.yaml", local))]
    subprocess.run(command, check=True, capture_output=True)
    program = tmp_path / "train.py"
    program.write_text(f"{closed}\n{train}\n")
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", str(program), "train"]
    ended = subprocess.run(
        [*launch, str(write_recipe(tmp_path / "cluster.yaml", cluster))], capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split() == ["False", "False"]
    assert ended.stderr.count("finished after update 4") == 1
    assert updates_of(tmp_path / "cluster") == updates_of(tmp_path / "local")

"""Run a peer's own training command and write one JSON line an update: update, tgt_tokens, seconds.

    PEER_PYTHON probe.py eole|joeynmt CONFIG OUTPUT [SECONDS EVERY]

With SECONDS it ends the peer after so much training, in the update after a multiple of EVERY, at which the peer has
written a checkpoint. OUTPUT is continued if it is there.

This file runs inside the peer's environment and changes nothing of what the peer computes. It reads the peer's
batches as they enter its training step (target tokens that are not padding; the end of the sentence counts, the start
symbol does not) and takes the time at the end of every optimiser step. The seconds of an update are those since the end
of the update before it: reading the batch, forward, backward, optimiser, and the peer's own bookkeeping.
"""

import json
import math
import sys
import time
from pathlib import Path
from typing import Any

from torch.optim.optimizer import register_optimizer_step_post_hook


class Recorder:
    """Counts the tokens of the batches that belong to one update, and writes them when its optimiser step ends."""

    def __init__(self, path: Path, seconds: float = math.inf, every: int = 1) -> None:
        earlier = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
        self.file = path.open("a", encoding="utf-8", buffering=1)
        self.update = len(earlier)
        self.left = seconds - sum(line["seconds"] for line in earlier)
        self.every = every
        self.tokens = 0
        self.last = time.perf_counter()
        register_optimizer_step_post_hook(lambda *_: self.end_update())

    def end_update(self) -> None:
        now = time.perf_counter()
        if self.left <= 0 and self.update % self.every == 0:
            raise SystemExit(0)
        self.update += 1
        self.left -= now - self.last
        line = {"update": self.update, "tgt_tokens": self.tokens, "seconds": now - self.last}
        self.file.write(json.dumps(line) + "\n")
        self.tokens, self.last = 0, now


def train_eole(config: str, recorder: Recorder) -> None:
    from eole.bin.main import main
    from eole.trainer import BatchProcessor

    process_batch = BatchProcessor.process_batch

    def counted(self: Any, batch: Any, *rest: Any) -> Any:
        recorder.tokens += int(batch["tgt"][:, 1:].ne(self.train_loss.padding_idx).sum())
        return process_batch(self, batch, *rest)

    BatchProcessor.process_batch = counted
    sys.argv = ["eole", "train", "-config", config]
    main()


def train_joeynmt(config: str, recorder: Recorder) -> None:
    from joeynmt.__main__ import main
    from joeynmt.training import TrainManager

    train_step = TrainManager._train_step

    def counted(self: Any, batch: Any) -> Any:
        recorder.tokens += int(batch.trg.ne(self.model.pad_index).sum())
        return train_step(self, batch)

    TrainManager._train_step = counted
    sys.argv = ["joeynmt", "train", config, "--skip-test"]
    main()


if __name__ == "__main__":
    peer, config, output, *stop = sys.argv[1:]
    recorder = Recorder(Path(output), *(convert(word) for convert, word in zip((float, int), stop, strict=False)))
    {"eole": train_eole, "joeynmt": train_joeynmt}[peer](config, recorder)

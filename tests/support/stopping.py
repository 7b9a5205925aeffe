"""Runs that are stopped after some updates, as by a signal."""

import os
import signal

from qkv.training.progress import SilentTrainingReporter, UpdateInfo


class StoppingReporter(SilentTrainingReporter):
    """Sends this process SIGTERM, which ends the run with a checkpoint, after so many updates."""

    def __init__(self, updates: int) -> None:
        self.updates = updates

    def update(self, info: UpdateInfo) -> None:
        if info.state.progress.updates == self.updates:
            os.kill(os.getpid(), signal.SIGTERM)

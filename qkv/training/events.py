"""The numbers of a run for TensorBoard."""

from pathlib import Path

from tensorboardX import SummaryWriter


class EventLog:
    """Scalars in `events/`; on resume, what was written after the checkpoint is marked as void."""

    def __init__(self, folder: Path, start: int) -> None:
        self.writer = SummaryWriter(str(folder), purge_step=start + 1)

    def write(self, group: str, values: dict[str, float], update: int) -> None:
        for name, value in values.items():
            self.writer.add_scalar(f"{group}/{name}", value, update)

    def close(self) -> None:
        self.writer.close()

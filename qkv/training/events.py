"""The numbers of a run for TensorBoard.

Only the message types and the checksum come from tensorboardX: its writer has a thread that dies on a full disk, after
which the run would wait for it forever.
"""

import os
import socket
import struct
import time
from pathlib import Path

from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.proto.summary_pb2 import Summary
from tensorboardX.record_writer import masked_crc32c

from qkv.core.errors import QkvError


class EventLog:
    """Writes scalars to `events/`; on resume, those written after the checkpoint are marked as void."""

    def __init__(self, folder: Path, start: int) -> None:
        # TensorBoard sorts the files by the time in their names; the process id distinguishes two of the same second.
        self.path = folder / f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}"
        try:
            folder.mkdir(exist_ok=True)
            self.file = self.path.open("wb")
        except OSError as error:
            raise QkvError(f"{self.path}: cannot be written to ({error.strerror})") from error
        self._add(Event(wall_time=time.time(), file_version="brain.Event:2"))
        session = SessionLog(status=SessionLog.START)
        self._add(Event(wall_time=time.time(), step=start + 1, session_log=session))

    def write(self, group: str, values: dict[str, float], update: int) -> None:
        scalars = [Summary.Value(tag=f"{group}/{name}", simple_value=value) for name, value in values.items()]
        self._add(Event(wall_time=time.time(), step=update, summary=Summary(value=scalars)))

    def _add(self, event: Event) -> None:
        """Append a TFRecord: length, its checksum, message, its checksum."""
        message = event.SerializeToString()
        length = struct.pack("<Q", len(message))
        checks = [struct.pack("<I", masked_crc32c(part)) for part in (length, message)]
        try:
            self.file.write(length + checks[0] + message + checks[1])
            self.file.flush()
        except OSError as error:
            raise QkvError(f"{self.path}: cannot be written to ({error.strerror})") from error

    def close(self) -> None:
        self.file.close()

"""The kinds of data: each a config, and a task that reads, prepares and batches it."""

from typing import Annotated

from qkv.data.config import DataConfig, data_kinds
from qkv.data.tasks import images, labelled, pairs, series, texts
from qkv.data.tasks.base import DataTask, Store, Stream, data_tasks, task_of

AnyData = Annotated[DataConfig, data_kinds]

__all__ = [
    "AnyData",
    "DataTask",
    "Store",
    "Stream",
    "data_tasks",
    "images",
    "labelled",
    "pairs",
    "series",
    "task_of",
    "texts",
]

"""The state of a run: numbers only, so that a checkpoint can store them as JSON."""

import math
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

from pydantic import AllowInfNan, Field, with_config

from qkv.config.periods import Period
from qkv.core.reading import STRICT, Count

AnyFloat = Annotated[float, AllowInfNan(True)]
"""A perplexity may be infinite, and a validation may give NaN."""


@with_config(STRICT)
@dataclass
class RunProgress:
    """The progress of a run, in every unit of a period."""

    updates: Count = 0
    tokens: Count = 0
    """Target tokens learned from, END included."""
    epochs: Annotated[float, Field(ge=0)] = 0.0
    minutes: Annotated[float, Field(ge=0)] = 0.0
    """Time spent, over all sessions of the run."""

    def of(self, period: Period) -> float:
        """How many of these periods have passed."""
        return float(getattr(self, period.unit)) / period.amount

    def passed(self, period: Period, since: "RunProgress") -> bool:
        """Whether a multiple of the period lies between `since` and now."""
        # 0.3 epochs are slightly less than three times 0.1 epochs in floating point.
        return math.floor(self.of(period) + 1e-9) > math.floor(since.of(period) + 1e-9)


@with_config(STRICT)
@dataclass
class TrainState:
    """Everything but the tensors that the next update depends on, and the history of the run."""

    progress: RunProgress = field(default_factory=RunProgress)
    epoch: Count = 0
    batch: Count = 0
    """The next batch of the epoch's plan."""
    skipped: Count = 0
    """Updates not applied because loss or gradient was not finite."""
    bad_in_a_row: Count = 0
    loss_scale: Annotated[float, Field(gt=0)] | None = None
    """With precision fp16, by what the loss is multiplied before the backward pass."""
    scale_updates: Count = 0
    """Updates without overflow since the scale last changed."""
    warmed: RunProgress = field(default_factory=RunProgress)
    """Before the last update of the schedule's warm-up, or before the newest one while it lasts. Checkpoints of earlier
    versions do not have it: the decay then runs from the first update, as it did there."""
    saved: RunProgress = field(default_factory=RunProgress)
    validated: RunProgress = field(default_factory=RunProgress)
    scored_by: dict[str, Any] | None = None
    """How the last validation scored (`ValidationConfig.scored_by`), so what `best_score` and `last_scores` can be
    compared with. Checkpoints of earlier versions do not have it."""
    best_score: AnyFloat | None = None
    best_update: Count | None = None
    """The update from which best/ was saved."""
    without_improvement: Count = 0
    last_scores: dict[str, AnyFloat] = field(default_factory=dict)
    metrics_bytes: Count = 0
    """Length of metrics.jsonl when this state was saved; on resume the file is truncated there."""
    metrics_crc32: Count | None = None
    """Checksum of metrics.jsonl up to there."""
    finished: bool = False
    data: str = ""
    """Identity of the prepared training data and its tokenizers."""

    def as_dict(self) -> dict[str, object]:
        return asdict(self)

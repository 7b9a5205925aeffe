"""Where a run stands: numbers only, so that a checkpoint can hold them as JSON."""

import math
from dataclasses import asdict, dataclass, field
from typing import Any

from qkv.config.periods import Period


@dataclass
class Progress:
    """How far a run has come, in every unit in which a period can be given."""

    updates: int = 0
    tokens: int = 0
    """Target tokens learned from, END included."""
    epochs: float = 0.0
    minutes: float = 0.0
    """Time spent, over all sessions of the run."""

    def of(self, period: Period) -> float:
        """How many of these periods have passed."""
        return float(getattr(self, period.unit)) / period.amount

    def passed(self, period: Period, since: "Progress") -> bool:
        """Whether a multiple of the period lies between `since` and now."""
        # Three tenths of an epoch are a hair less than three times 0.1 epochs.
        return math.floor(self.of(period) + 1e-9) > math.floor(since.of(period) + 1e-9)


@dataclass
class TrainState:
    """Everything but the tensors that the next update depends on, and what the run remembers of the past."""

    progress: Progress = field(default_factory=Progress)
    epoch: int = 0
    batch: int = 0
    """The next batch of the epoch's plan."""
    skipped: int = 0
    """Updates not applied because loss or gradient was not finite."""
    bad_in_a_row: int = 0
    warmed: Progress = field(default_factory=Progress)
    """Before the last update of the schedule's warm-up, or before the newest one while it lasts."""
    saved: Progress = field(default_factory=Progress)
    validated: Progress = field(default_factory=Progress)
    best_score: float | None = None
    without_improvement: int = 0
    last_scores: dict[str, float] = field(default_factory=dict)
    metrics_bytes: int = 0
    """Length of metrics.jsonl when this state was saved; on resume the file is cut there."""
    finished: bool = False
    data: str = ""
    """Identity of the prepared training data and its tokenizers."""

    def as_dict(self) -> dict[str, object]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "TrainState":
        # Checkpoints of earlier versions have no `warmed`: the decay then runs from the first update, as it did there.
        data = {"warmed": {}, **data}
        progresses = {name: Progress(**data[name]) for name in ("progress", "saved", "validated", "warmed")}
        return cls(**{**data, **progresses})

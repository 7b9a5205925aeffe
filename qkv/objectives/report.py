"""What an objective returns."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class LossReport:
    """Sums, not means: the trainer adds up an update's reports and divides once.

    So the result does not depend on how an update is cut into micro-batches or dealt to workers.
    """

    sum: Tensor
    """What is minimised, summed over the target tokens; has a gradient."""
    nll: float
    """Plain negative log-likelihood, summed; perplexity comes from this one."""
    weight: float
    """How many target tokens count."""
    left_out: int = 0
    """Pairs that the model cannot learn as they are, because their target has no place on its canvas."""

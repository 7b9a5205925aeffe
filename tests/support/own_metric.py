"""A metric of one's own; in a process of its own, because a name is registered for good."""

import pytest

from qkv.evaluation.metrics.error_rates import ExactMatch
from qkv.evaluation.metrics.registry import register_metric
from qkv.training.recipe import ValidationConfig


class Mine(ExactMatch):
    """A metric that qkv does not know."""

    name = "mine"


def choose_own() -> None:
    """A recipe may name it once it is registered."""
    register_metric(Mine())
    assert ValidationConfig.model_validate({"metrics": ["mine"], "best": "mine"}).best == "mine"
    assert "mine" in ValidationConfig.model_json_schema()["properties"]["metrics"]["items"]["enum"]
    with pytest.raises(ValueError, match="the name 'mine' is registered twice"):
        register_metric(Mine())

"""What training may measure is what `qkv evaluate` measures."""

from typing import get_args

import pytest

from qkv.evaluation.metrics import BY_LANGUAGE, METRICS, MetricName
from qkv.training.recipe import ValidationConfig
from qkv.training.validation import higher_is_better, is_better


def test_the_names_are_the_metrics() -> None:
    assert set(get_args(MetricName)) == METRICS.keys() | BY_LANGUAGE.keys()
    for name in get_args(MetricName):
        config = ValidationConfig.model_validate({"metrics": [name], "best": name, "language": "de"})
        assert config.metrics == [name]


def test_a_metric_by_the_rules_of_a_language_needs_one() -> None:
    with pytest.raises(ValueError, match="bleu_tok_lc needs the language"):
        ValidationConfig(metrics=["bleu_tok_lc"])
    with pytest.raises(ValueError, match="best is chrf, which must then also be in metrics"):
        ValidationConfig(best="chrf")


@pytest.mark.parametrize("name", ["loss", *get_args(MetricName)])
def test_the_better_score_wins(name: str) -> None:
    better, worse = (9.0, 1.0) if name in ("bleu", "chrf", "bleu_tok_lc", "accuracy") else (1.0, 9.0)
    assert higher_is_better(name) == (better > worse)
    assert is_better(name, better, worse)
    assert not is_better(name, worse, better)
    assert not is_better(name, worse, worse)
    assert is_better(name, worse, None)
    assert not is_better(name, float("nan"), None)

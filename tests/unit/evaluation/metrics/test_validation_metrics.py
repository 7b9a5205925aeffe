"""What training may measure is what `qkv evaluate` measures."""

import pytest

from qkv.config import validate
from qkv.core.errors import UsageError
from qkv.evaluation.metrics.registry import METRICS
from qkv.training.recipe import ValidationConfig
from qkv.training.validation import higher_is_better, is_better
from tests.support.forks import Forks


def test_the_names_are_the_metrics() -> None:
    for name in METRICS:
        config = ValidationConfig.model_validate({"metrics": [name], "best": name, "language": "de"})
        assert config.metrics == [name]


def test_a_recipe_may_use_an_old_name() -> None:
    with pytest.warns(FutureWarning, match="the metric accuracy is now called exact"):
        config = ValidationConfig.model_validate({"metrics": ["accuracy"], "best": "accuracy"})
    assert config.metrics == ["exact"]
    assert config.best == "exact"


def test_a_wrong_name_is_answered_with_the_right_ones() -> None:
    with pytest.raises(
        UsageError, match=r'metrics.0: must be "bleu", "chrf", .* or "per", not the text "cerr"; did you'
    ):
        validate(ValidationConfig, {"metrics": ["cerr"]}, "recipe")
    with pytest.raises(UsageError, match=r'best: must be "loss", "bleu", .* or "per", not the text "blue"'):
        validate(ValidationConfig, {"best": "blue"}, "recipe")
    with pytest.raises(UsageError, match=r'metrics.0: must be "bleu", .* not 3'):
        validate(ValidationConfig, {"metrics": [3]}, "recipe")


def test_a_metric_of_ones_own_may_be_chosen(forks: Forks) -> None:
    ended = forks.call("tests.support.own_metric:choose_own")
    assert ended.code == 0, ended.stderr


def test_a_language_without_rules_is_refused_with_the_recipe() -> None:
    with pytest.raises(ValueError, match=r"no rules for the language 'tr'.* or leave bleu_tok_lc out of metrics"):
        ValidationConfig.model_validate({"metrics": ["bleu_tok_lc"], "language": "tr"})
    assert ValidationConfig.model_validate({"metrics": ["bleu"], "language": "tr"}).language == "tr"


def test_a_metric_by_the_rules_of_a_language_needs_one() -> None:
    with pytest.raises(ValueError, match="bleu_tok_lc needs the language"):
        ValidationConfig(metrics=["bleu_tok_lc"])
    with pytest.raises(ValueError, match="best is chrf, which must then also be in metrics"):
        ValidationConfig(best="chrf")


@pytest.mark.parametrize("name", ["loss", *METRICS])
def test_the_better_score_wins(name: str) -> None:
    better, worse = (9.0, 1.0) if name in ("bleu", "chrf", "bleu_tok_lc", "exact") else (1.0, 9.0)
    assert higher_is_better(name) == (better > worse)
    assert is_better(name, better, worse)
    assert not is_better(name, worse, better)
    assert not is_better(name, worse, worse)
    assert is_better(name, worse, None)
    assert not is_better(name, float("nan"), None)

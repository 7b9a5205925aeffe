"""Which search a model is decoded by, and what is refused before anything runs."""

import pytest

from qkv.core.errors import ConfigError
from qkv.models.decoders.autoregressive import AutoregressiveConfig
from qkv.search.default import search_problem
from qkv.search.greedy import GreedyConfig
from qkv.search.refinement.search import RefineConfig
from qkv.search.speculative.search import SpeculativeConfig


def test_validation_has_no_drafter() -> None:
    """It would end a run at its first validation."""
    problem = search_problem(SpeculativeConfig(), AutoregressiveConfig())
    assert problem is not None
    assert "use greedy" in problem
    assert search_problem(GreedyConfig(), AutoregressiveConfig()) is None


def test_a_reader_of_the_wrong_type_is_explained() -> None:
    with pytest.raises(ConfigError, match="reader"):
        RefineConfig(reader=5, beam=3)

"""Which search a model is decoded by, and what is refused before anything runs."""

import warnings
from pathlib import Path

import pytest

from qkv.config import dump_config
from qkv.core.errors import ConfigError
from qkv.models.decoders.autoregressive import AutoregressiveConfig
from qkv.models.saved.folder import SavedConfig
from qkv.models.transformer.config import TransformerConfig
from qkv.search.default import default_search, search_problem
from qkv.search.greedy import GreedyConfig
from qkv.search.refinement.dag import DagReaderConfig
from qkv.search.refinement.search import RefineConfig
from qkv.search.speculative.search import SpeculativeConfig
from qkv.text import TextConfig
from qkv.translate.settings import translation_config


def test_validation_has_no_drafter() -> None:
    """It would end a run at its first validation."""
    problem = search_problem(SpeculativeConfig(), AutoregressiveConfig())
    assert problem is not None
    assert "use greedy" in problem
    assert search_problem(GreedyConfig(), AutoregressiveConfig()) is None


def test_an_old_key_in_a_saved_model_does_not_warn(tmp_path: Path) -> None:
    """qkv wrote it; its user cannot have known better."""
    model = TransformerConfig.model_validate({"decoder": "dag"})
    text = TextConfig.model_validate({"shared": "char"})
    saved = SavedConfig(model=model, text=text, search={"kind": "refine", "way": "best"})
    (tmp_path / "config.yaml").write_text(dump_config(saved), encoding="utf-8")
    (tmp_path / "manifest.json").write_text("{}", encoding="utf-8")
    wanted = RefineConfig(reader=DagReaderConfig(path="best"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert default_search(saved) == default_search(tmp_path) == wanted
        assert translation_config([], tmp_path).search == wanted
        assert translation_config(["search.passes=2"], tmp_path).search == wanted.model_copy(update={"passes": 2})
    with pytest.warns(FutureWarning, match="the key way is now called path"):
        assert translation_config(["search.kind=refine", "search.way=best"], tmp_path).search == wanted


def test_a_reader_of_the_wrong_type_is_explained() -> None:
    with pytest.raises(ConfigError, match="reader"):
        RefineConfig(reader=5, beam=3)

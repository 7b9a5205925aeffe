"""A renamed key keeps its old name, which warns where a person wrote it."""

import warnings
from pathlib import Path
from typing import ClassVar, Literal

import pytest

from qkv.config import load_config
from qkv.config.base import Config
from qkv.core.errors import ConfigError
from qkv.layers.attention.multi_head import FullConfig
from qkv.layers.position_offsets import RandomisedConfig
from qkv.layers.positions.shaw import ShawConfig
from qkv.search.refinement.dag import DagReaderConfig


class Part(Config):
    renamed: ClassVar = {"old": "new"}
    new: Literal["a", "b"] = "a"


class Whole(Config):
    part: Part = Part()


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_the_old_name_warns_and_means_the_new_one(tmp_path: Path) -> None:
    path = write(tmp_path / "recipe.yaml", "part: {old: b}\n")
    with pytest.warns(FutureWarning, match="the key old is now called new"):
        assert load_config(Whole, path).part.new == "b"
    with pytest.warns(FutureWarning, match="now called new"):
        assert load_config(Whole, write(tmp_path / "other.yaml", "{}"), ["part.old=b"]).part.new == "b"


def test_a_file_that_qkv_wrote_is_read_without_a_warning(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load_config(Whole, write(tmp_path / "config.yaml", "part: {old: b}\n")).part.new == "b"


def test_both_names_are_refused_and_a_wrong_value_is_found(tmp_path: Path) -> None:
    path = write(tmp_path / "config.yaml", "part:\n  old: b\n")
    with pytest.raises(ConfigError, match=r"part.new=a: part: old is the old name of new; give only one"):
        load_config(Whole, path, ["part.new=a"])
    with pytest.raises(ConfigError, match=r'config.yaml:1: part.new: must be "a" or "b"'):
        load_config(Whole, write(tmp_path / "config.yaml", "part:\n  old: c\n"))


@pytest.mark.parametrize(
    ("config", "old", "value"),
    [
        (FullConfig, "weigh", "entmax"),
        (RandomisedConfig, "room", 64),
        (ShawConfig, "reach", 4),
        (DagReaderConfig, "way", "best"),
    ],
)
def test_old_keys_of_the_package(config: type[Config], old: str, value: object) -> None:
    with pytest.warns(FutureWarning, match=f"the key {old} is now called"):
        found = config.model_validate({old: value})
    assert found == config.model_validate({config.renamed[old]: value})

"""The paths in the settings of a search, which an actor has elsewhere."""

from pathlib import Path

from qkv.search.greedy import GreedyConfig
from qkv.search.refinement.search import RefineConfig
from qkv.search.speculative.drafters.other_model import ModelDrafterConfig
from qkv.search.speculative.search import speculative
from qkv.translate.cluster.shipped import paths_in, relocated


def test_paths_are_found_and_replaced_wherever_they_are() -> None:
    here, there = Path("models/ctc"), Path("/tmp/copy")
    drafted = speculative(GreedyConfig(max_extra=3), ModelDrafterConfig(path=here, block=5))
    assert paths_in(drafted) == [here]
    moved = relocated(drafted, {here: there})
    assert moved == speculative(GreedyConfig(max_extra=3), ModelDrafterConfig(path=there, block=5))
    assert paths_in(drafted) == [here]
    rescored = RefineConfig(length_beam=3, rescore=here)
    assert relocated(rescored, {here: there}) == RefineConfig(length_beam=3, rescore=there)
    assert paths_in(GreedyConfig()) == []

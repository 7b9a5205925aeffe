"""How far a model that translates while the source arrives had read when it wrote each token."""

from qkv.models.saved.folder import SavedModel
from qkv.models.transformer.config import TransformerConfig
from qkv.search.greedy import GreedyConfig
from qkv.translate.simultaneous import SimultaneousTranslator


def reading_delays(saved: SavedModel, text: str) -> tuple[list[str], list[int]] | None:
    """The tokens that it writes, and how many source tokens it had read for each; None: it reads the source first."""
    config = saved.config.model
    if not isinstance(config, TransformerConfig) or config.needs_whole_source:
        return None
    search = GreedyConfig().within(saved.config.length_limit)
    *_, last = SimultaneousTranslator(saved, search).translate([text])
    return last.tokens, last.delays[: len(last.tokens)]

"""`look_inside`: how one text was computed by the user's own model."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from qkv.engines.model_set import ModelLike
from qkv.search.base import SearchConfig
from qkv.visual.see.page import InsideView
from qkv.visual.see.sentence import see_sentence


def look_inside(
    model: ModelLike,
    text: str,
    compare: ModelLike | None = None,
    search: SearchConfig | str | Mapping[str, Any] | None = None,
) -> InsideView:
    """Decode a text and keep everything: all attention, candidates, the search, the vectors behind each weight.

    With `compare` the same text goes through a second model, and both are shown side by side. `search` is as for
    `Translator`.

    Examples:
        >>> from qkv import look_inside
        >>> view = look_inside("runs/reverse", "abca", search="greedy")
        >>> view.sentences[0].attentions[0].weights.shape  # [H, Q, K]
        torch.Size([4, 5, 5])
    """
    sentences = [see_sentence(each, text, search) for each in ([model] if compare is None else [model, compare])]
    if len({seen.name for seen in sentences}) < len(sentences):
        # Two runs of one name, or two models in memory.
        sentences = [replace(seen, name=f"{seen.name} ({place})") for place, seen in enumerate(sentences, start=1)]
    return InsideView(sentences)

"""The picture of a drafting run shows what was drafted, what was right, and the whole output once."""

from xml.etree import ElementTree

import pytest

from qkv.search.greedy import GreedyConfig
from qkv.search.speculative.drafters import drafters
from qkv.translate.translator import Translator
from qkv.visual.drafts import draw_drafts, watch_drafts
from tests.support.pictures import boxes
from tests.support.speaker import SHORT, sentences, speaker


@pytest.mark.parametrize("kind", ["jacobi", "input"])
def test_the_kept_tokens_of_all_passes_are_the_output(kind: str) -> None:
    saved, search = speaker(3, 2.0), GreedyConfig(**SHORT)
    for text in sentences(8):
        passes, best = watch_drafts(saved, text, drafters[kind](block=3), search)
        (wanted,) = Translator(saved, "torch", search, draft=None).translate([text])
        said = [word for each in passes for word in (*each.right, each.said)]
        assert said == [*wanted.tokens, *(["END"] if best.ended else [])]
        assert len(passes) == best.passes
        assert [each.start for each in passes][1:] == [each.start + len(each.right) + 1 for each in passes][:-1]
        drawn = ElementTree.fromstring(draw_drafts(passes, text))
        kinds = [group.get("class") for group in boxes(drawn)]
        assert kinds.count("said") == len(passes)
        assert kinds.count("right") == sum(len(each.right) for each in passes)
        assert kinds.count("wrong") == sum(len(each.wrong) for each in passes)

"""The picture of what positions alone do to the scores."""

from xml.etree import ElementTree

import pytest
import torch

from qkv.functional.positions import alibi_slopes
from qkv.layers.positions.alibi import Alibi
from qkv.layers.positions.base import Positions
from qkv.layers.positions.sinusoidal import Sinusoidal
from qkv.visual.positions import draw_positions, every_scheme, position_scores, schemes_of
from tests.support.small import small_model

SVG = "{http://www.w3.org/2000/svg}"


def test_scores_are_those_of_equal_tokens() -> None:
    flat = position_scores(Positions(), Positions(), 8, 2, 5)
    assert bool((flat == flat[0, 0, 0]).all())
    alibi = position_scores(Positions(), Alibi(2), 8, 2, 5) - flat
    assert alibi[0, 0].tolist() == [-distance * alibi_slopes(2)[0] for distance in range(5)]
    waves = Sinusoidal(8)
    shown = position_scores(waves, waves, 8, 1, 5)[0]
    table = waves.embed(torch.zeros(5, 8), torch.arange(5))
    torch.testing.assert_close(shown, table @ table.T / 8**0.5)


def test_every_scheme_has_a_panel_of_its_own() -> None:
    panels = every_scheme(6)
    pictures = [draw_positions({"it": panel}, "") for panel in panels.values()]
    assert len(set(pictures)) == len(panels) >= 7


@pytest.mark.parametrize("kind", ["shaw", "t5", "sinusoidal"])
def test_a_decoder_has_no_later_key(kind: str) -> None:
    panels = schemes_of(small_model(positions=kind), 4)
    assert list(panels) == ["encoder, head 1", "encoder, head 2", "decoder, head 1", "decoder, head 2"]
    assert not any(panels[f"encoder, head {head}"].isnan().any() for head in (1, 2))
    assert torch.equal(panels["decoder, head 2"].isnan(), torch.ones(4, 4).triu(1).bool())


def test_the_drawing_has_a_square_for_every_number() -> None:
    panel = torch.tensor([[0.0, 1.0], [-1.0, torch.nan]])
    root = ElementTree.fromstring(draw_positions({"a<b": panel}, "title"))
    assert [text.text for text in root.iter(f"{SVG}text") if text.get("class") == "name"] == ["a<b"]
    squares = {path.get("fill"): path.get("d") for path in root.iter(f"{SVG}path")}
    assert squares == {"#2166ac": "M0 1h1v1h-1z", "#f7f7f7": "M0 0h1v1h-1z", "#b2182b": "M1 0h1v1h-1z"}

"""The picture of the wirings, drawn from what the modules really do."""

from xml.etree import ElementTree

import torch

from qkv.models.transformer.wirings import wirings
from qkv.visual.wirings import EQUATIONS, draw_wirings, every_wiring, wiring_of
from tests.support.small import small_model


def test_every_kind_has_its_connections() -> None:
    panels = every_wiring()
    assert list(panels) == list(EQUATIONS)
    assert set(panels) == set(wirings.names())
    assert panels["last"].tolist() == [[0, 0, 0, 1]] * 3
    assert panels["layerwise"].tolist() == [[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    for kind in ("mix", "dense", "concatenated"):
        assert bool(panels[kind].all()), kind


def test_a_model_shows_what_it_learnt() -> None:
    model = small_model(wiring="mix", encoder_layers=3)
    with torch.no_grad():
        model.get_parameter("encoder.wiring.logits").copy_(
            torch.tensor([[-9.0, 9.0, -9.0, -9.0], [-9.0, -9.0, -9.0, 9.0]])
        )
    assert wiring_of(model).round().tolist() == [[0, 1, 0, 0], [0, 0, 0, 1]]


def test_the_picture_has_a_line_for_each_connection() -> None:
    panels = {"a < b": torch.tensor([[0.0, 1.0, 0.5], [0.0, 0.0, 1.0]])}
    picture = ElementTree.fromstring(draw_wirings(panels, "what & where"))
    lines = [line for line in picture.iter("{http://www.w3.org/2000/svg}line") if line.get("class") is None]
    assert len(lines) == 3
    texts = [element.text for element in picture.iter() if element.text]
    assert {"a < b", "what & where", "S₀", "S₂", "D₁", "D₂"} <= set(texts)

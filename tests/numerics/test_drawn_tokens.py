"""Tokens drawn from distributions."""

import torch

from qkv.functional.noise import draw_tokens


def test_tokens_are_drawn_as_often_as_they_are_probable() -> None:
    torch.manual_seed(0)
    probabilities = torch.tensor([0.5, 0.3, 0.2, 0.0])
    drawn = draw_tokens(probabilities.expand(20_000, 4))
    found = torch.bincount(drawn, minlength=4) / 20_000
    torch.testing.assert_close(found, probabilities, atol=0.015, rtol=0)
    assert found[3] == 0


def test_what_is_not_finite_does_not_raise() -> None:
    drawn = draw_tokens(torch.tensor([[float("nan")] * 3, [0.0, 1.0, 0.0]]))
    assert 0 <= int(drawn[0]) < 3
    assert int(drawn[1]) == 1

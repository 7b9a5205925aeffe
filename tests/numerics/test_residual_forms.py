"""Where the norm stands: every form against its equation, its start, and its twin without gradients."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from qkv.functional.norm import layer_norm
from qkv.layers.attention.context import AttentionContext
from qkv.layers.residual import NormedResidual, Place, Residual, residuals
from qkv.layers.residual.deepnorm import DeepNorm, deepnorm_constants
from qkv.layers.residual.post import PostNorm
from qkv.layers.residual.pre_rms import PreRMSNorm
from qkv.models.transformer.build import build_model
from qkv.models.transformer.model import Transformer
from tests.support.small import small_config, small_model, stir

WIDTH = 6
ENCODER, DECODER = Place(6, 6, in_decoder=False), Place(6, 6, in_decoder=True)


def made(kind: str, place: Place = ENCODER) -> Residual:
    torch.manual_seed(1)
    residual = residuals[kind]().build(WIDTH, 0.0, place).double()
    stir(residual)
    return residual


def data() -> tuple[Tensor, Tensor]:
    torch.manual_seed(2)
    x, matrix = torch.randn(2, 3, WIDTH, dtype=torch.float64), torch.randn(WIDTH, WIDTH, dtype=torch.float64)
    return x, matrix


def norm_of(x: Tensor, norm: nn.LayerNorm) -> Tensor:
    return layer_norm(x, norm.weight, norm.bias, norm.eps)


def by_equation(residual: Any, x: Tensor, matrix: Tensor) -> Tensor:
    kind = type(residual).__name__
    if kind == "PostNorm":
        return norm_of(x + x @ matrix, residual.norm)
    if kind == "PreNorm":
        return x + norm_of(x, residual.norm) @ matrix
    if kind == "SandwichNorm":
        return x + norm_of(norm_of(x, residual.norm) @ matrix, residual.outer_norm)
    if kind == "DeepNorm":
        return norm_of(0.81 * (6**4 * 6) ** (1 / 16) * x + x @ matrix, residual.norm)
    if kind == "PreRMSNorm":
        size = (x * x).sum(dim=-1, keepdim=True) / WIDTH
        return x + (residual.norm.weight * x / (size + 1e-6).sqrt()) @ matrix
    assert kind == "ReZero"
    return x + residual.gain * (x @ matrix)


@pytest.mark.parametrize("kind", residuals.names())
def test_every_form_is_its_equation_with_and_without_gradients(kind: str) -> None:
    residual, (x, matrix) = made(kind), data()
    wanted = by_equation(residual, x, matrix)
    torch.testing.assert_close(residual(x, lambda h: h @ matrix), wanted, atol=1e-10, rtol=0)
    torch.testing.assert_close(residual.for_inference()(x, lambda h: h @ matrix), wanted, atol=1e-10, rtol=0)


@pytest.mark.parametrize("kind", residuals.names())
def test_dropout_acts_on_what_is_added(kind: str) -> None:
    """With all of f dropped, x alone goes on."""
    x, matrix = data()
    torch.manual_seed(1)
    residual = residuals[kind]().build(WIDTH, 0.999, ENCODER).double()
    nothing = by_equation(residual, x[:1, :1], torch.zeros_like(matrix))
    torch.testing.assert_close(residual(x[:1, :1], lambda h: h @ matrix), nothing, atol=1e-10, rtol=0)


@pytest.mark.parametrize(
    ("place", "alpha", "beta"),
    [
        (ENCODER, 1.418, 0.497),
        (DECODER, 2.060, 0.343),
        (Place(8, 0, in_decoder=False), 2.0, 0.3536),
        (Place(0, 8, in_decoder=True), 2.0, 0.3536),
    ],
)
def test_the_constants_of_deepnorm(place: Place, alpha: float, beta: float) -> None:
    assert deepnorm_constants(place) == pytest.approx((alpha, beta), abs=6e-4)


def test_deepnorm_with_alpha_1_is_post_norm() -> None:
    (x, matrix), deep, post = data(), DeepNorm(WIDTH, 0.0, 1.0).double(), PostNorm(WIDTH, 0.0).double()
    assert torch.equal(deep(x, lambda h: h @ matrix), post(x, lambda h: h @ matrix))


def test_deepnorm_starts_with_smaller_values_and_the_same_queries_and_keys() -> None:
    plain, deep = fresh(residual="post", encoder_layers=3), fresh(residual="deepnorm", encoder_layers=3)
    gains = {"encoder": 0.87 * (3**4 * 2) ** (-1 / 16), "decoder": 24**-0.25}
    theirs = dict(plain.named_parameters())
    scaled = 0
    for name, parameter in deep.named_parameters():
        carries = name.endswith(("value.weight", "output.weight", "inner.weight", "outer.weight"))
        gain = gains[name.split(".")[0]] if carries else 1.0
        torch.testing.assert_close(parameter, gain * theirs[name])
        scaled += carries
    assert scaled == 3 * 4 + 2 * 6


def fresh(**changes: Any) -> Transformer:
    torch.manual_seed(3)
    return build_model(small_config(**changes), 9, 9, 0)


def test_a_fresh_rezero_stack_is_the_identity_with_jacobian_1() -> None:
    encoder = fresh(residual="rezero").encoder.double()
    x, pos = torch.randn(1, 2, 16, dtype=torch.float64), torch.arange(2)
    assert torch.equal(encoder(x, AttentionContext(pos, pos)), x)
    jacobian = torch.autograd.functional.jacobian(lambda h: encoder(h, AttentionContext(pos, pos)), x)
    assert torch.equal(jacobian.view(32, 32), torch.eye(32, dtype=torch.float64))


@pytest.mark.parametrize(("kind", "normed"), [("pre", True), ("sandwich", True), ("rezero", False)])
def test_a_stack_that_adds_nothing_ends_in_one_norm(kind: str, normed: bool) -> None:
    encoder = small_model(residual=kind).encoder.double()
    for layer in encoder.layers:
        with torch.no_grad():
            for name, parameter in layer.named_parameters():
                if name.startswith(("attention.output.", "feed_forward.outer.")) or name.endswith("outer_norm.bias"):
                    parameter.zero_()
    x, pos = torch.randn(2, 3, 16, dtype=torch.float64), torch.arange(3)
    assert isinstance(encoder.final, nn.LayerNorm) == normed
    wanted = norm_of(x, encoder.final) if isinstance(encoder.final, nn.LayerNorm) else x
    torch.testing.assert_close(encoder(x, AttentionContext(pos, pos)), wanted, atol=1e-10, rtol=0)


@pytest.mark.parametrize("kind", residuals.names())
def test_the_order_of_the_sublayers(kind: str) -> None:
    """Past, source, feed-forward, each inside its own connection."""
    layer = next(small_model(residual=kind).decoder.in_order()).double()
    x, memory, pos = torch.randn(1, 3, 16).double(), torch.randn(1, 4, 16).double(), torch.arange(3)
    context, cross_context = AttentionContext(pos, pos), AttentionContext(pos, torch.arange(4))
    key_value = layer.cross_attention.project(memory, cross_context.k_pos)
    functions = [
        lambda h: layer.attention(h, context),
        lambda h: layer.cross_attention.cross_attend(h, key_value, cross_context),
        layer.feed_forward,
    ]
    places = [layer.attention_residual, layer.cross_residual, layer.feed_forward_residual]
    wanted = x
    for residual, f in zip(places, functions, strict=True):
        wanted = residual(wanted, f)
    torch.testing.assert_close(layer(x, context, memory, cross_context), wanted, atol=1e-12, rtol=0)


def test_only_rezero_has_no_norm() -> None:
    normed = (NormedResidual, PreRMSNorm)
    assert [kind for kind in residuals.names() if not isinstance(made(kind), normed)] == ["rezero"]

"""The feed-forward network in slices: the same outputs and gradients for any slice, and less to keep."""

import pytest
import torch
from torch import Tensor

from qkv.kernels.dropout import dropout
from qkv.kernels.recompute import in_slices
from qkv.layers.feed_forward import FeedForward, PositionWise, SwigluFeedForward
from tests.support.memory import saved_bytes
from tests.support.small import batch_of, decode, small_model


def network(kind: type[PositionWise], rate: float = 0.0) -> PositionWise:
    torch.manual_seed(0)
    return kind(6, 40, rate).double()


@pytest.mark.parametrize("kind", [FeedForward, SwigluFeedForward])
@pytest.mark.parametrize("chunk", [1, 4, 10, 11, 99])
def test_outputs_and_gradients_equal_those_of_the_whole(kind: type[PositionWise], chunk: int) -> None:
    f = network(kind)
    x = torch.randn(2, 11, 6, dtype=torch.float64, requires_grad=True)
    leaves = [x, *f.parameters()]
    whole = f(x)
    f.chunk = chunk
    sliced = f(x)
    torch.testing.assert_close(sliced, whole, rtol=0, atol=1e-12)
    with torch.no_grad():
        torch.testing.assert_close(f.for_inference()(x), whole, rtol=0, atol=1e-12)
        torch.testing.assert_close(f.for_inference()(x[0]), whole[0], rtol=0, atol=1e-12)
    for ours, theirs in zip(
        torch.autograd.grad(sliced.sin().sum(), leaves), torch.autograd.grad(whole.sin().sum(), leaves), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


def test_wide_vectors_exist_for_one_slice_only() -> None:
    seen: list[int] = []

    def activation(x: Tensor) -> Tensor:
        seen.append(x.numel())
        return torch.relu(x)

    f, kept = FeedForward(6, 40, activation=activation), []
    x = torch.randn(2, 64, 6, requires_grad=True)
    for chunk in (None, 8):
        f.chunk = chunk
        with saved_bytes() as sizes:
            y = f(x)
        y.sum().backward()
        kept.append(sum(sizes))
    assert seen[0] == 2 * 64 * 40
    assert seen[1:] == [2 * 8 * 40] * 16  # eight slices, computed twice
    assert kept[1] < kept[0] / 5


def test_dropout_has_the_same_draw_in_the_backward_pass_and_another_in_each_slice() -> None:
    x = torch.ones(1, 40, 50, dtype=torch.float64, requires_grad=True)
    torch.manual_seed(0)
    y = in_slices(lambda part: dropout(part, 0.25), x, 20)
    y.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, y.detach())
    assert not torch.equal(y[:, :20], y[:, 20:])
    assert abs(float((y == 0).double().mean()) - 0.25) < 0.05


def test_a_model_in_slices_is_the_same_model() -> None:
    batch = batch_of([(9, 7), (4, 12)])
    models = [small_model(feed_forward_chunk=chunk) for chunk in (None, 3)]
    whole, sliced = (decode(model, batch.src, batch.src_keep, batch.tgt_in) for model in models)
    assert models[0].state_dict().keys() == models[1].state_dict().keys()
    torch.testing.assert_close(sliced, whole, rtol=0, atol=1e-5)
    assert {layer.feed_forward.chunk for model in models for layer in model.encoder.in_order()} == {None, 3}

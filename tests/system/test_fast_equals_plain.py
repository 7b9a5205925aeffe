"""The kernels do not change what is learned: the same loss curve as with the plain definitions.

Without dropout the two curves agree number by number. With dropout they draw other random numbers, so their means over
several seeds are compared.
"""

import statistics
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from qkv.data.batch import Batch, collate
from qkv.functional.attention import scaled_dot_product
from qkv.functional.losses import Smoothing, smoothed_cross_entropy
from qkv.models.transformer.build import build_model
from qkv.models.transformer.config import TransformerConfig
from qkv.objectives.teacher_forcing import ObjectiveConfig
from qkv.text import SPECIAL
from qkv.training.optimizers import AdamWConfig
from qkv.training.step.update import FlatGradient

VOCABULARY = 40
UPDATES = 40
CLOSE = 0.03
"""Between mean losses; other random numbers move them by about 0.01, a rate of 0.2 in place of 0.3 by 0.05."""


def plain_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, bias: Tensor | None, dropout: float
) -> Tensor:
    context, _ = scaled_dot_product(q, k, v, mask, bias)
    return context


def plain_residual_norm(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor, rate: float, eps: float) -> Tensor:
    return F.layer_norm(x + F.dropout(y, rate), x.shape[-1:], weight, bias, eps)


def plain_cross_entropy(
    hidden: Tensor, weight: Tensor, bias: None, targets: Tensor, smoothing: Smoothing, weights: Tensor
) -> tuple[Tensor, Tensor]:
    return smoothed_cross_entropy(torch.log_softmax(hidden @ weight.t(), dim=-1), targets, smoothing, weights)


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def switch() -> None:
        monkeypatch.setattr("qkv.layers.positions.attention.attention", plain_attention)
        monkeypatch.setattr("qkv.layers.residual.post.residual_norm", plain_residual_norm)
        monkeypatch.setattr("qkv.layers.dropout.dropout", F.dropout)
        monkeypatch.setattr("qkv.models.heads.linear.linear_cross_entropy", plain_cross_entropy)

    return switch


def batches(seed: int) -> list[Batch]:
    """Copying of random strings of mixed length."""
    generator = torch.Generator().manual_seed(seed)
    made = []
    for _ in range(UPDATES):
        lengths = torch.randint(3, 12, (24,), generator=generator).tolist()
        rows = [torch.randint(5, VOCABULARY, (n,), generator=generator).tolist() for n in lengths]
        made.append(collate(rows, rows, SPECIAL, SPECIAL, list(range(len(rows)))))
    return made


def curve(dropout: float, seed: int) -> list[float]:
    """The loss of each update."""
    torch.manual_seed(seed)
    sizes = {"d_model": 32, "d_ff": 64, "num_heads": 4, "encoder_layers": 2, "decoder_layers": 2, "dropout": dropout}
    model = build_model(TransformerConfig(**sizes, share_embeddings="all"), VOCABULARY, VOCABULARY, SPECIAL.pad)
    objective = ObjectiveConfig().build(VOCABULARY, SPECIAL, lambda: torch.ones(VOCABULARY))
    optimizer, gradient = AdamWConfig().build(model), FlatGradient(model)
    losses = []
    for batch in batches(seed):
        gradient.clear()
        report = objective.training_loss(model, batch, 1)
        report.sum.backward()
        gradient.finish(float(gradient.norm()), float(report.weight), 1.0)
        optimizer.step(3e-3)
        losses.append(float(report.sum.detach()) / float(report.weight))
    return losses


def test_same_curve_without_dropout(plain: Callable[[], None]) -> None:
    fast = curve(0.0, seed=1)
    plain()
    slow = curve(0.0, seed=1)
    assert fast[-1] < 0.9 * fast[0]
    assert max(abs(a - b) for a, b in zip(fast, slow, strict=True)) < 1e-3


def mean_loss(dropout: float) -> float:
    """Of the last ten updates, over four seeds."""
    return statistics.mean(loss for seed in range(4) for loss in curve(dropout, seed)[-10:])


def test_same_curve_with_dropout(plain: Callable[[], None]) -> None:
    """Closer than another rate of dropout would be, which shows that a kernel that drops too little is noticed."""
    fast, less = mean_loss(0.3), mean_loss(0.2)
    plain()
    assert abs(mean_loss(0.3) - fast) < CLOSE
    assert abs(mean_loss(0.3) - less) > CLOSE

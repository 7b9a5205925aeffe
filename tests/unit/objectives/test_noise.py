"""Noise in the decoder's input: how much, of what, and where never."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from qkv.data.batch import Batch
from qkv.models.base import Output
from qkv.objectives.noise import DropConfig, MaskOutConfig, NoiseConfig, ReplaceConfig, SwapConfig, noises
from qkv.objectives.teacher_forcing import ObjectiveConfig, TeacherForcing
from qkv.text import SPECIAL
from tests.support.small import VOCAB, batch_of, small_model

every_noise = pytest.mark.parametrize("kind", noises.names())
every_writing_noise = pytest.mark.parametrize("kind", [name for name in noises.names() if name != "swap"])
"""Those that write something over a token; `swap` only moves them."""
LARGE = 200


def many() -> Tensor:
    """BOS, ordinary tokens, padding: 200 rows of different lengths."""
    return batch_of([(1, length % 60) for length in range(200)], vocab=LARGE).tgt_in


def eligible(tgt_in: Tensor) -> Tensor:
    return (tgt_in != SPECIAL.pad) & (tgt_in != SPECIAL.bos)


def noisy(config: NoiseConfig, tgt_in: Tensor, update: int = 1, seed: int = 0) -> Tensor:
    torch.manual_seed(seed)
    return config.build(SPECIAL, LARGE)(tgt_in, update)


def within_three_sigma(changed: Tensor, tgt_in: Tensor, rate: float) -> None:
    trials = int(eligible(tgt_in).sum())
    assert trials > 5000
    assert abs(int(changed.sum()) - rate * trials) < 3 * math.sqrt(trials * rate * (1 - rate)) + 0.001


@every_writing_noise
@pytest.mark.parametrize("rate", [0.05, 0.4])
def test_the_rate_is_kept(kind: str, rate: float) -> None:
    """A replaced token is the same again once in V - 5 times, which is taken off the rate."""
    tgt_in = many()
    chance = rate * (1 - 1 / (LARGE - 5)) if kind == "replace" else rate
    within_three_sigma(noisy(noises[kind](rate=rate), tgt_in) != tgt_in, tgt_in, chance)


@every_noise
def test_start_symbol_and_padding_never_change(kind: str) -> None:
    tgt_in = many()
    found = noisy(noises[kind](rate=1.0), tgt_in)
    assert torch.equal(found[~eligible(tgt_in)], tgt_in[~eligible(tgt_in)])
    least = 0.5 if kind == "swap" else 0.99
    assert float((found != tgt_in)[eligible(tgt_in)].float().mean()) > least


@pytest.mark.parametrize("distance", [1, 3])
def test_swapped_tokens_are_the_same_ones_and_stay_near(distance: int) -> None:
    tgt_in = torch.arange(5, 65).repeat(50, 1)
    tgt_in[:, 0] = SPECIAL.bos
    found = noisy(SwapConfig(rate=1.0, distance=distance), tgt_in)
    assert torch.equal(found.sort().values, tgt_in.sort().values)
    assert int((found[:, 1:] - tgt_in[:, 1:]).abs().max()) == distance
    some = noisy(SwapConfig(rate=0.2, distance=distance), tgt_in)
    assert 0.02 < float((some != tgt_in).float().mean()) <= 0.2


@every_noise
def test_rate_zero_does_nothing(kind: str) -> None:
    tgt_in = many()
    assert torch.equal(noisy(noises[kind](rate=0.0), tgt_in), tgt_in)


@every_noise
def test_the_input_itself_is_left_alone(kind: str) -> None:
    tgt_in = many()
    noisy(noises[kind](rate=1.0), tgt_in)
    assert torch.equal(tgt_in, many())


def test_what_a_token_becomes() -> None:
    tgt_in = many()
    where = eligible(tgt_in)
    assert set(noisy(DropConfig(rate=1.0), tgt_in)[where].tolist()) == {SPECIAL.unk}
    assert set(noisy(MaskOutConfig(rate=1.0), tgt_in)[where].tolist()) == {SPECIAL.mask}
    drawn = noisy(ReplaceConfig(rate=1.0), tgt_in)[where]
    assert set(drawn.tolist()) == set(range(5, LARGE))


@every_noise
def test_the_seed_of_torch_decides(kind: str) -> None:
    tgt_in, config = many(), noises[kind](rate=0.3)
    assert torch.equal(noisy(config, tgt_in, seed=1), noisy(config, tgt_in, seed=1))
    assert not torch.equal(noisy(config, tgt_in, seed=1), noisy(config, tgt_in, seed=2))


@every_writing_noise
def test_the_rate_grows_over_the_warm_up(kind: str) -> None:
    config, tgt_in = noises[kind](rate=0.4, warmup=100), many()
    rates = [config.build(SPECIAL, LARGE).rate_at(update) for update in (1, 50, 100, 101, 9999)]
    assert rates == pytest.approx([0.004, 0.2, 0.4, 0.4, 0.4])
    shares = [float((noisy(config, tgt_in, update) != tgt_in)[eligible(tgt_in)].float().mean()) for update in (1, 50)]
    assert shares == pytest.approx([0.004, 0.2], abs=0.02)


class Reader:
    """Stands where the model stands and remembers what it was given to read."""

    def __init__(self) -> None:
        self.model = small_model()
        self.head = self.model.head
        self.read: list[Tensor] = []

    def __call__(self, batch: Batch) -> Output:
        self.read.append(batch.tgt_in)
        output: Output = self.model(batch)
        return output


def teacher(*noise: NoiseConfig) -> TeacherForcing:
    config = ObjectiveConfig(noise=list(noise), smoothing="none")
    return config.build(VOCAB, SPECIAL, lambda: torch.ones(VOCAB))


def snapshot(batch: Batch) -> list[Tensor]:
    return [x.clone() for x in (batch.src, batch.src_keep, batch.tgt_in, batch.tgt_out, batch.tgt_weight)]


def test_training_reads_noise_and_is_still_asked_for_the_true_tokens() -> None:
    """The loss is that of the true labels after the disturbed input, and the batch is as it was."""
    batch = batch_of([(3, 9), (4, 7)])
    reader: Any = Reader()
    before = snapshot(batch)
    torch.manual_seed(1)
    report = teacher(DropConfig(rate=0.5)).training_loss(reader, batch, 1)
    assert not torch.equal(reader.read[0], batch.tgt_in)
    assert all(torch.equal(x, y) for x, y in zip(before, snapshot(batch), strict=True))
    decoded = reader.model.states(batch.src, batch.src_keep, reader.read[0])
    gold = reader.head.log_probs(decoded).gather(2, batch.tgt_out[..., None]).squeeze(2)
    assert report.nll == pytest.approx(-float((gold * batch.tgt_weight).sum().detach()), rel=1e-5)


def test_validation_reads_no_noise() -> None:
    batch = batch_of([(3, 9), (4, 7)])
    reader: Any = Reader()
    teacher(DropConfig(rate=1.0), MaskOutConfig(rate=1.0)).validation_loss(reader, batch)
    assert torch.equal(reader.read[0], batch.tgt_in)


def test_noises_follow_one_another() -> None:
    """Replaced, then dropped: all are <unk>; the other way round none is."""
    batch = batch_of([(3, 9), (4, 7)])
    reader: Any = Reader()
    where = eligible(batch.tgt_in)
    teacher(ReplaceConfig(rate=1.0), DropConfig(rate=1.0)).training_loss(reader, batch, 1)
    teacher(DropConfig(rate=1.0), ReplaceConfig(rate=1.0)).training_loss(reader, batch, 1)
    assert set(reader.read[0][where].tolist()) == {SPECIAL.unk}
    assert SPECIAL.unk not in reader.read[1][where].tolist()


def test_the_warm_up_follows_the_update() -> None:
    batch = batch_of([(3, 9), (4, 7)])
    reader: Any = Reader()
    late = teacher(DropConfig(rate=1.0, warmup=10**9))
    late.training_loss(reader, batch, 1)
    late.training_loss(reader, batch, 10**9)
    assert torch.equal(reader.read[0], batch.tgt_in)
    assert not torch.equal(reader.read[1], batch.tgt_in)

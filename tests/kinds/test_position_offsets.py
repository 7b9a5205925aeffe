"""Random positions in training: their order, their range, one draw a pass, and none when the model is used."""

from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor

from qkv.functional.positions import randomised_positions, shifted_positions
from qkv.layers.positions.base import Positions
from qkv.training.recipe import Recipe
from tests.support.small import VOCAB, batch_of, decode, small_config, small_model

KINDS = [{"kind": "shift", "most": 9}, {"kind": "randomised", "max_positions": 30}]
every_kind = pytest.mark.parametrize("offsets", KINDS, ids=lambda kind: kind["kind"])


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def test_a_shift_begins_anywhere_and_counts_on() -> None:
    drawn = shifted_positions(3000, 4, most=2)
    assert torch.equal(drawn - drawn[:, :1], torch.arange(4).expand(3000, 4))
    counts = Counter(drawn[:, 0].tolist())
    assert set(counts) == {0, 1, 2}
    assert min(counts.values()) > 900
    assert torch.equal(shifted_positions(2, 4, most=0), torch.arange(4).expand(2, 4))


def test_randomised_positions_rise_without_repeats_over_the_whole_room() -> None:
    drawn = randomised_positions(3000, 3, max_positions=5)
    assert bool((drawn.diff(dim=1) > 0).all())
    sets = Counter(map(tuple, drawn.tolist()))
    assert len(sets) == 10
    assert min(sets.values()) > 240
    assert torch.equal(randomised_positions(2, 5, max_positions=5), torch.arange(5).expand(2, 5))
    with pytest.raises(ValueError, match="6 tokens do not fit 5 positions"):
        randomised_positions(2, 6, max_positions=5)


class Recorder(Positions):
    """Remembers what it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[Tensor] = []

    def embed(self, x: Tensor, pos: Tensor) -> Tensor:
        self.told.append(pos)
        return x

    def rotate(self, x: Tensor, pos: Tensor) -> Tensor:
        self.told.append(pos)
        return x


def record(model: Any, recorder: Recorder) -> None:
    for embedder in (model.src_embedder, model.tgt_embedder):
        embedder.positions = recorder
    for layer in (*model.encoder.layers, *model.decoder.layers):
        layer.attention.positions = recorder


@every_kind
def test_one_draw_for_all_layers_and_another_for_the_next_pass(offsets: dict[str, Any]) -> None:
    model, recorder = small_model(position_offsets=offsets), Recorder()
    record(model, recorder)
    batch = batch_of([(6, 6)] * 5)
    passes = []
    for _ in range(2):
        recorder.told.clear()
        model.encode(batch.src, batch.src_keep)
        assert len(recorder.told) == 1 + 2 * 2  # embedded, then queries and keys of two layers
        assert all(pos is recorder.told[0] for pos in recorder.told)
        assert recorder.told[0].shape == (5, 7)
        assert len(set(map(tuple, recorder.told[0].tolist()))) > 1
        passes.append(recorder.told[0])
    assert not torch.equal(*passes)
    recorder.told.clear()
    model.eval().encode(batch.src, batch.src_keep)
    assert all(torch.equal(pos, torch.arange(7)) for pos in recorder.told)


@every_kind
def test_both_sides_of_a_pair_share_a_draw(offsets: dict[str, Any]) -> None:
    model, recorder = small_model(position_offsets=offsets), Recorder()
    record(model, recorder)
    for lengths in ((6, 9), (9, 6)):
        recorder.told.clear()
        batch = batch_of([lengths] * 3)
        model.states(batch.src, batch.src_keep, batch.tgt_in)
        src, tgt = (next(pos for pos in recorder.told if pos.shape[1] == length + 1) for length in lengths)
        assert torch.equal(src[:, :7], tgt[:, :7])
        assert not torch.equal(src[0, :7], torch.arange(7))


@every_kind
def test_an_evaluation_draws_nothing(offsets: dict[str, Any]) -> None:
    plain, model = small_model().eval(), small_model(position_offsets=offsets)
    batch = batch_of([(6, 6), (3, 4)])
    inputs = batch.src, batch.src_keep, batch.tgt_in
    assert not torch.allclose(decode(model, *inputs), decode(model, *inputs))
    before = torch.get_rng_state()
    assert torch.equal(decode(model.eval(), *inputs), decode(plain, *inputs))
    assert torch.equal(before, torch.get_rng_state())


@every_kind
def test_no_later_token_is_seen_in_training(offsets: dict[str, Any]) -> None:
    model, batch = small_model(position_offsets=offsets), batch_of([(4, 9)] * 3)
    changed = batch.tgt_in.clone()
    changed[:, 5:] = (changed[:, 5:] + 1) % VOCAB
    outputs = []
    for tgt_in in (batch.tgt_in, changed):
        torch.manual_seed(3)
        outputs.append(decode(model, batch.src, batch.src_keep, tgt_in))
    torch.testing.assert_close(outputs[0][:, :5], outputs[1][:, :5], rtol=0, atol=1e-6)
    assert not torch.allclose(outputs[0][:, 5], outputs[1][:, 5])


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"positions": "none", "position_offsets": "shift"}, "changes nothing with positions none; leave it out"),
        ({"positions": "rope", "position_offsets": "shift"}, "use randomised, or positions sinusoidal or learned"),
    ],
)
def test_offsets_that_nobody_would_see_are_refused(model: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        small_config(**model)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            {"position_offsets": {"kind": "randomised", "max_positions": 99}},
            r"max_positions \(99\) is below data.max_src_tokens",
        ),
        (
            {"positions": {"kind": "learned", "max_length": 1100}, "position_offsets": "randomised"},
            r"max_positions \(2048\) is above model.positions.max_length \(1100\)",
        ),
        (
            {"positions": {"kind": "learned", "max_length": 1100}, "position_offsets": {"kind": "shift", "most": 5}},
            "need model.positions.max_length",
        ),
    ],
)
def test_positions_that_do_not_suffice_are_refused(model: dict[str, Any], message: str) -> None:
    data = {"train": {"kind": "tsv", "path": "pairs.tsv"}, "max_src_tokens": 1098, "max_tgt_tokens": 100}
    with pytest.raises(ValueError, match=message):
        Recipe(data=data, text={"shared": "char"}, model=model)

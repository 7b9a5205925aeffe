"""Every kind of decoder that is not autoregressive: trains, saves, loads, ignores batch and padding, is documented."""

import math
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from qkv.config import dump_config, load_config
from qkv.models.decoders import decoders
from qkv.models.parallel.base import ParallelModel, StretchedModel
from qkv.models.saved.folder import SavedConfig, SavedModel, load_model, save_model
from qkv.models.size import count_parameters
from qkv.objectives.parts import objectives
from qkv.search.refinement.base import readers
from qkv.text import SPECIAL
from tests.support.parallel import PARALLEL, decode, objective_of, parallel_model
from tests.support.small import batch_of, random_ids, small_config, small_text
from tests.support.tables import random_sources

LENGTHS = [(3, 4), (6, 5), (2, 2), (5, 7)]
every_kind = pytest.mark.parametrize("kind", PARALLEL)
VARIANTS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    *(({"kind": kind}, {}) for kind in PARALLEL),
    ({"kind": "ctc", "upsample": 2.5}, {"glancing": {}, "smoothing": "none"}),
    ({"kind": "dag", "factor": 1.5, "inputs": "queries"}, {"glancing": {}, "smoothing": "uniform"}),
    ({"kind": "nat", "inputs": "queries"}, {"glancing": {"start": 0.4}}),
    ({"kind": "canvas", "inputs": "queries", "tail": 0.0}, {"smoothing": "uniform"}),
]
every_variant = pytest.mark.parametrize(("decoder", "objective"), VARIANTS)


@every_variant
def test_three_updates_lower_the_loss(decoder: dict[str, Any], objective: dict[str, Any]) -> None:
    torch.manual_seed(1)
    model, trainer, batch = parallel_model(decoder).train(), objective_of(decoder, **objective), batch_of(LENGTHS)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = [trainer.validation_loss(model, batch).nll]
    for update in range(1, 4):
        optimizer.zero_grad()
        report = trainer.training_loss(model, batch, update)
        assert report.weight > 0
        assert report.left_out == 0
        report.sum.backward()
        assert all(p.grad is None or bool(p.grad.isfinite().all()) for p in model.parameters())
        optimizer.step()
        losses.append(trainer.validation_loss(model, batch).nll)
    assert all(map(math.isfinite, losses))
    assert losses[-1] < losses[0]


@every_kind
def test_its_weights_are_counted_without_building_it(kind: str) -> None:
    _, tokenizers = small_text()
    config = small_config(decoder=kind)
    assert count_parameters(config, tokenizers) == sum(p.numel() for p in config.build(tokenizers).parameters())


@every_kind
@torch.no_grad()
def test_the_loss_ignores_padding_and_batch(kind: str) -> None:
    model, trainer, batch = parallel_model(kind), objective_of(kind), batch_of(LENGTHS)
    whole = trainer.validation_loss(model, batch)
    parts = [trainer.validation_loss(model, part) for half in batch.split() for part in half.split()]
    assert math.fsum(part.nll for part in parts) == pytest.approx(float(whole.nll), rel=1e-5)
    assert math.fsum(part.weight for part in parts) == whole.weight
    assert float(sum(part.sum for part in parts)) == pytest.approx(float(whole.sum), rel=1e-5)


@every_kind
@pytest.mark.parametrize("passes", [None, 3])
def test_the_output_ignores_padding_and_batch(kind: str, passes: int | None) -> None:
    model = outspoken_model(kind)
    sources = [source[:-1] for source in random_sources(8, 3)]
    together = decode(model, sources, passes=passes)
    alone = [decode(model, [source], passes=passes)[0] for source in sources]
    assert [best.tokens for best, *_ in together] == [best.tokens for best, *_ in alone]
    assert len({tuple(best.tokens) for best, *_ in alone}) > 3
    for (one, *_), (other, *_) in zip(together, alone, strict=True):
        assert one.score == pytest.approx(other.score, abs=1e-4)
        assert one.token_scores == pytest.approx(other.token_scores, abs=1e-4)
        # A batch goes on as long as its longest sentence needs.
        assert replace(one, passes=None).ended == replace(other, passes=None).ended


@every_kind
def test_a_saved_model_says_the_same(kind: str, tmp_path: Path) -> None:
    text, tokenizers = small_text()
    config = SavedConfig(model=small_config(decoder=kind), text=text)
    torch.manual_seed(2)
    model = config.model.build(tokenizers).eval()
    save_model(tmp_path / "model", SavedModel(model, tokenizers, config))
    loaded = load_model(tmp_path / "model")
    assert loaded.config == config
    assert isinstance(loaded.model, ParallelModel)
    sources = [[5, 6, 7], [8], [9, 10, 11, 12, 5]]
    assert decode(loaded.model, sources) == decode(model, sources)


@every_kind
def test_lengths_are_obeyed(kind: str) -> None:
    """Exactly where one is given; and the longer the factor, the longer the output."""
    model = outspoken_model(kind)
    sources = [random_ids(random.Random(number), 6 + number) for number in range(4)]
    for length in (1, 5, 9):
        for best, *_ in decode(model, sources, length=length):
            assert len(best.tokens) == len(best.token_scores) == length
            assert SPECIAL.eos not in best.tokens
    natural = [len(best.tokens) for best, *_ in decode(model, sources, max_extra=999)]
    before = [0] * len(sources)
    for factor in (0.5, 0.8, 1.0, 1.2):
        now = [len(best.tokens) for best, *_ in decode(model, sources, length_factor=factor, max_extra=999)]
        assert all(a <= b for a, b in zip(before, now, strict=True))
        for length, own, source in zip(now, natural, sources, strict=True):
            assert abs(length - min(factor * own, room(model, source))) <= 1
        before = now
    assert [len(best.tokens) for best, *_ in decode(model, sources, max_extra=999)] == natural


@pytest.mark.parametrize("kind", PARALLEL)
def test_an_exact_length_holds_against_every_limit(kind: str) -> None:
    for length, limits in ((6, {"max_factor": 0.5, "max_extra": 0}), (4, {"max_length": 2})):
        (best,) = decode(parallel_model(kind, seed=1), [[7, 8, 9, 5]], length=length, **limits)[0]
        assert len(best.tokens) == length
        assert best.ended


@pytest.mark.parametrize("kind", [kind for kind in PARALLEL if kind in ("canvas", "ctc", "dag")])
def test_canvases_are_as_long_as_their_limits_say(kind: str) -> None:
    """In double precision, as Python computes: 1.2 x 25 is 30, and in single precision a little more."""
    for factor in (1.1, 1.2, 1.3, 1.7, 2.3):
        named = {"upsample" if kind == "ctc" else "factor": factor}
        model = parallel_model({"kind": kind, **named}, positions={"kind": "learned", "max_length": 200})
        longest, config = model.limits.src, decoders[kind](**named)
        assert isinstance(longest, int)
        lengths = torch.arange(1, longest + 2)
        assert model.canvas_lengths(lengths).tolist() == [config.longest_canvas(int(each), 1) for each in lengths]
        assert config.longest_canvas(longest, 1) <= 200 < config.longest_canvas(longest + 1, 1)


def outspoken_model(kind: str) -> Any:
    """Sure of its tokens: where every token is improbable, the shortest way through a graph is the best one."""
    model = parallel_model(kind, seed=4)
    with torch.no_grad():
        model.head.weight *= 10
    return model


def room(model: Any, source: list[int]) -> float:
    """Positions of the canvas."""
    length = torch.tensor([len(source) + 1])
    return int(model.canvas_lengths(length)) if isinstance(model, StretchedModel) else math.inf


def test_every_kind_has_an_objective_and_a_reader() -> None:
    assert set(PARALLEL) == set(objectives) == set(readers.names())


@pytest.mark.parametrize("kind", decoders.names())
def test_its_settings_are_documented_written_and_read_again(kind: str, tmp_path: Path) -> None:
    cls = decoders[kind]
    assert (cls.__dict__.get("__doc__") or "").strip()
    assert [name for name, field in cls.model_fields.items() if name != "kind" and not field.description] == []
    config = SavedConfig(model=small_config(decoder=kind), text=small_text()[0])
    (tmp_path / "config.yaml").write_text(dump_config(config), encoding="utf-8")
    assert load_config(SavedConfig, tmp_path / "config.yaml") == config

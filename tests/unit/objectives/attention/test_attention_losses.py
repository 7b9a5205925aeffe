"""Losses on attention as a part of teacher forcing: which weights they read, and what they are added to."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from qkv.core.errors import ConfigError
from qkv.data.batch import Batch
from qkv.functional.alignment import guided_attention
from qkv.layers.attention.recording import capture_attention
from qkv.models.base import Model
from qkv.models.decoders.autoregressive import AutoregressiveConfig
from qkv.models.recurrent.config import RecurrentConfig, build_recurrent
from qkv.models.recurrent.model import RecurrentModel
from qkv.objectives.attention.guided import Guided
from qkv.objectives.build import build_objective
from qkv.objectives.teacher_forcing import ObjectiveConfig
from qkv.text import SPECIAL
from qkv.training.recipe import Recipe
from tests.support.small import VOCAB, batch_of, gradient_of, small_model

LENGTHS = [(3, 5), (6, 2), (1, 0), (4, 7)]


def never() -> Tensor:
    raise AssertionError("nobody counts tokens")


def training_loss(model: Model, batch: Batch, update: int = 1, **objective: Any) -> Tensor:
    config = ObjectiveConfig(**{"smoothing": "none", **objective})
    teacher = build_objective(config, AutoregressiveConfig(), VOCAB, SPECIAL, never)
    return teacher.training_loss(model, batch, update).sum


def recurrent_model() -> RecurrentModel:
    torch.manual_seed(0)
    return build_recurrent(RecurrentConfig(d_model=16, dropout=0.0), VOCAB, VOCAB, SPECIAL.pad, "all")


def by_hand(weights: Tensor, batch: Batch, width: float = 0.2) -> Tensor:
    """The cost of each sentence, once for each of its target tokens."""
    keep = batch.tgt_weight > 0
    return (guided_attention(weights, keep, batch.src_keep, width) * keep.sum(dim=1)).sum()


@pytest.mark.parametrize("changes", [{}, {"wiring": "concatenated"}, {"share_layers": True}])
def test_the_mean_over_all_layers_is_added(changes: dict[str, Any]) -> None:
    model, batch = small_model(**changes), batch_of(LENGTHS)
    with capture_attention(model) as record:
        plain = training_loss(model, batch)
    passes = [each for name in record if "cross" in name for each in record.passes[name]]
    folded = [model.decoder.wiring.fold(weights) for weights in passes]
    assert len(folded) == 2
    wanted = plain + 3.0 * sum(by_hand(weights, batch) for weights in folded) / 2
    found = training_loss(model, batch, attention={"kind": "guided", "weight": 3.0})
    torch.testing.assert_close(found, wanted)
    assert found > plain


def test_layers_and_heads_are_counted_from_one() -> None:
    model, batch = small_model(), batch_of(LENGTHS)
    with capture_attention(model) as record:
        plain = training_loss(model, batch)
    weights = record["decoder.layers.1.cross_attention"][:, :1]
    found = training_loss(model, batch, attention=[{"kind": "guided", "layers": [2], "heads": [1], "width": 0.5}])
    torch.testing.assert_close(found, plain + by_hand(weights, batch, width=0.5))


def test_only_the_chosen_layer_learns_where_to_look() -> None:
    model, batch = small_model(), batch_of(LENGTHS)
    difference = training_loss(model, batch, attention={"kind": "guided", "layers": [1]}) - training_loss(model, batch)
    difference.backward()
    first, second = (
        gradient_of(layer.get_parameter("cross_attention.query.weight")) for layer in model.decoder.in_order()
    )
    assert first.abs().max() > 1e-5
    assert second.abs().max() < 1e-6


def test_a_recurrent_model_has_one_layer_and_one_head() -> None:
    model, batch = recurrent_model(), batch_of(LENGTHS)
    output, _ = model.extend(batch.tgt_in, model.start(batch.src, batch.src_keep), attention=True)
    weights = output.context.attention
    assert weights is not None
    found = training_loss(model, batch, attention={"kind": "guided", "layers": [1], "heads": [1]})
    torch.testing.assert_close(found, training_loss(model, batch) + by_hand(weights[:, None], batch))


def test_how_an_update_is_cut_does_not_matter() -> None:
    model, batch = small_model(), batch_of(LENGTHS)
    halves = [training_loss(model, half, attention="guided") for half in batch.split()]
    torch.testing.assert_close(sum(halves), training_loss(model, batch, attention="guided"))


def test_two_passes_as_one_count_as_their_mean() -> None:
    model, batch = small_model(), batch_of(LENGTHS)
    twice = {"kind": "rdrop", "weight": 1.0}
    added = training_loss(model, batch, attention="guided") - training_loss(model, batch)
    found = training_loss(model, batch, consistency=twice, attention="guided")
    torch.testing.assert_close(found - training_loss(model, batch, consistency=twice), added, atol=1e-4, rtol=1e-3)


def test_the_schedule_of_the_weight() -> None:
    loss = Guided(weight=2.0, warmup=4, until=100)
    assert loss.weight_at(2) == pytest.approx(2.0 * 0.5 * 0.98)
    assert loss.weight_at(50) == pytest.approx(1.0)
    assert loss.weight_at(100) == loss.weight_at(5000) == 0
    model, batch = small_model(), batch_of(LENGTHS)
    config = {"kind": "guided", "until": 10}
    assert torch.equal(training_loss(model, batch, 10, attention=config), training_loss(model, batch, 10))


def test_weights_are_taken_before_dropout_and_in_single_precision() -> None:
    model, batch = small_model(attention_dropout=0.5), batch_of(LENGTHS)
    with torch.autocast("cpu", torch.bfloat16), model.watch_cross_attention([1]) as layers:
        model(replace(batch))
    assert (layers[0].sum(dim=-1) - 1).abs().max() < 2e-2
    assert Guided().layer_cost(layers[0], batch).dtype == torch.float32


def test_given_alignments_are_compared_with_the_weights() -> None:
    model, batch = small_model(), batch_of(LENGTHS)
    links = torch.zeros(len(batch), batch.tgt_out.shape[1], batch.src.shape[1])
    links[0, 1, 2] = links[3, 0, 3] = 1
    with capture_attention(model) as record:
        plain = training_loss(model, batch)
    weights = record["decoder.layers.1.cross_attention"][:, 1]
    aligned = replace(batch, alignment=links)
    found = training_loss(model, aligned, attention={"kind": "alignments", "layers": [2], "heads": [2], "weight": 0.5})
    torch.testing.assert_close(found, plain - 0.5 * (weights[0, 1, 2].log() + weights[3, 0, 3].log()))
    halves = [training_loss(model, half, attention="alignments") for half in aligned.split()]
    torch.testing.assert_close(sum(halves), training_loss(model, aligned, attention="alignments"))


def test_alignments_must_be_given() -> None:
    assert "needs alignments: give data.train.alignments, a file" in refused(attention={"kind": "alignments"})


def refused(**groups: Any) -> str:
    sizes = {"d_model": 16, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    model = {**sizes, **groups.pop("model", {})}
    objective = {"attention": {"kind": "guided", **groups.pop("attention", {})}}
    with pytest.raises(ConfigError) as error:
        Recipe(
            data={"train": {"kind": "tsv", "path": "pairs.tsv"}},
            text={"shared": "char"},
            model=model,
            objective=objective,
        )
    return str(error.value)


def test_what_does_not_go_together_is_refused() -> None:
    assert "layers has 2, but the model has 1; give 1 to 1" in refused(attention={"layers": [1, 2]})
    assert "heads has 3, but the model has 2" in refused(attention={"heads": [3]})
    assert "use model.kind recurrent, or transformer with stack layers or universal" in refused(
        model={"stack": "reversible", "residual": "pre"}
    )
    assert "objective.attention is for the autoregressive decoder, not for ctc" in refused(model={"decoder": "ctc"})

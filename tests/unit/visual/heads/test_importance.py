"""Importance by both of its forms and by finite differences; the order of removal."""

from typing import Any

import pytest
import torch
from torch import Tensor

from qkv.data.batch import collate
from qkv.evaluation.files import set_of_pairs
from qkv.evaluation.metrics.registry import METRICS
from qkv.functional.losses import no_smoothing
from qkv.models.saved.folder import SavedConfig, SavedModel
from qkv.models.transformer.head_ids import HeadId, own_attentions
from qkv.models.transformer.pruning import closed_heads, prune_heads
from qkv.objectives.teacher_forcing import TeacherForcing
from qkv.text import SPECIAL
from qkv.visual.heads.analysis import rank_correlation
from qkv.visual.heads.corpus import HeadCorpus
from qkv.visual.heads.importance import gradients_of_factors, head_importance
from qkv.visual.heads.removal import RemovalScorer, removal_order, study_removal
from qkv.visual.heads.tables import removal_tables
from tests.support.small import VOCAB, batch_of, small_config, small_model, small_text

OBJECTIVE = TeacherForcing(no_smoothing(VOCAB))
PARTS: list[dict[str, Any]] = [
    {},
    {"share_layers": True},
    {"cross_attention": "monotonic", "num_heads": 2},
    {"encoder_attention": {"kind": "longformer", "window": 2, "global_positions": [0]}},
    {"cross_attention": {"kind": "full", "kv_heads": 1}},
]


@pytest.mark.parametrize("parts", PARTS, ids=str)
def test_the_gradient_of_a_factor_is_that_of_the_heads_output(parts: dict[str, Any]) -> None:
    model, batch = small_model(**parts).double().eval(), batch_of([(4, 3), (2, 5)])
    found = gradients_of_factors(model, batch, OBJECTIVE)
    outputs: list[list[Tensor]] = [[] for _ in found]
    hooks = []
    for place, own in zip(own_attentions(model), outputs, strict=True):

        def keep(module: object, inputs: tuple[Tensor], own: list[Tensor] = own) -> None:
            inputs[0].retain_grad()
            own.append(inputs[0])

        hooks.append(place.attention.output.register_forward_pre_hook(keep))
    OBJECTIVE.validation_loss(model, batch).sum.backward()
    for gradient, own in zip(found, outputs, strict=True):
        slow = torch.zeros_like(gradient)
        for output in own:
            assert output.grad is not None
            both = (output * output.grad).unflatten(-1, (gradient.shape[1], -1))
            slow += both.sum(dim=(1, 3))
        torch.testing.assert_close(gradient, slow.detach(), atol=1e-12, rtol=0)
    for hook in hooks:
        hook.remove()


def test_finite_differences() -> None:
    model, batch = small_model().double().eval(), batch_of([(4, 3)])
    found = gradients_of_factors(model, batch, OBJECTIVE)
    step = 1e-6
    for place, gradient in zip(own_attentions(model), found, strict=True):
        width = place.attention.head_width
        for head in range(place.attention.num_heads):
            columns = place.attention.output.weight.data[:, head * width : (head + 1) * width]
            losses = []
            for factor in (1 + step, (1 - step) / (1 + step), 1 / (1 - step)):
                columns.mul_(factor)
                losses.append(float(OBJECTIVE.validation_loss(model, batch).sum.detach()))
            assert (losses[0] - losses[1]) / (2 * step) == pytest.approx(float(gradient[0, head]), abs=1e-7)


def test_importance_has_norm_one_in_each_attention_and_a_closed_head_has_none() -> None:
    text, tokenizers = small_text()
    vocab = len(tokenizers.src)
    model = small_model(src_vocab=vocab, tgt_vocab=vocab, num_heads=4).eval()
    saved = SavedModel(model, tokenizers, SavedConfig(model=small_config(num_heads=4), text=text))
    closed = HeadId("cross", 2, 3)
    corpus = HeadCorpus("pairs", lambda: [("aa ab", "ba"), ("bb", "aa cc ab")])
    with closed_heads(model, [closed]):
        found = head_importance(saved, corpus)
    assert found[closed] == 0
    for place in own_attentions(model):
        assert sum(found[head] ** 2 for head in place.heads) == pytest.approx(1)


def test_the_last_head_of_each_attention_stays() -> None:
    first = [HeadId("encoder", 1, number) for number in (1, 2, 3)]
    second = [HeadId("cross", 1, number) for number in (1, 2)]
    rank = dict(zip([*first, *second], [0.1, 0.3, 0.2, 0.25, 0.9], strict=True))
    assert removal_order([first, second], rank) == [first[0], first[2], second[0]]


@pytest.fixture(scope="module")
def scorer() -> RemovalScorer:
    """Of a model with random weights."""
    text, tokenizers = small_text()
    config = SavedConfig(model=small_config(encoder_layers=1, decoder_layers=1), text=text)
    torch.manual_seed(0)
    saved = SavedModel(config.model.build(tokenizers).eval(), tokenizers, config)
    test = set_of_pairs("pairs", [("aa ab", "ba"), ("bb", "aa cc ab"), ("ba", "ba ba"), ("cc", "ab")])
    return RemovalScorer(saved, test, METRICS["chrf"])


def test_scores_without_heads_and_curves(scorer: RemovalScorer) -> None:
    heads = [head for place in own_attentions(scorer.model) for head in place.heads]
    before = scorer.score(())
    ranks = {"importance": {head: float(number) for number, head in enumerate(heads)}}
    study = study_removal(scorer, ranks, each=True, curve=True)
    assert [one.head for one in study.each] == heads
    assert study.whole == before
    curve = study.curve
    assert curve is not None
    assert (curve.removed, curve.total, len(curve.random)) == ([0, 1, 2, 3], 6, 10)
    assert curve.orders["importance"][0] == before == curve.random[0][0]
    assert curve.orders["importance"][1] == study.each[0].score
    assert curve.tests[0].difference == 0
    assert 1 / 11 <= curve.p_random <= 1
    assert len(study.answers) == 3
    assert len(removal_tables(study)) == 2
    assert scorer.loss(heads[:1]) == pytest.approx(before - study.each[0].score)


def test_scores_are_those_of_the_pruned_model(scorer: RemovalScorer) -> None:
    removed = [HeadId("cross", 1, 1), HeadId("encoder", 1, 2)]
    pruned = prune_heads(scorer.saved, removed)
    assert RemovalScorer(pruned, scorer.test, scorer.metric).score(()) == scorer.score(removed)


def test_rank_correlation() -> None:
    assert rank_correlation([1, 2, 3], [10, 20, 15]) == pytest.approx(0.5)
    assert rank_correlation([1, 1, 1], [1, 2, 3]) == 0
    assert rank_correlation([3, 2, 1], [1, 2, 3]) == pytest.approx(-1)


def test_importance_is_the_mean_size_of_the_gradients_of_sentences() -> None:
    text, tokenizers = small_text()
    vocab = len(tokenizers.src)
    model = small_model(src_vocab=vocab, tgt_vocab=vocab).double().eval()
    saved = SavedModel(model, tokenizers, SavedConfig(model=small_config(), text=text))
    pairs = [("aa ab", "ba"), ("bb", "aa cc ab"), ("cc ab ba", "bb bb")]
    found = head_importance(saved, HeadCorpus("pairs", lambda: pairs))
    objective, totals = TeacherForcing(no_smoothing(vocab)), [torch.zeros(2).double() for _ in own_attentions(model)]
    for src, tgt in pairs:
        one = collate([tokenizers.src.encode(src)], [tokenizers.tgt.encode(tgt)], SPECIAL, SPECIAL, [0])
        for total, gradient in zip(totals, gradients_of_factors(model, one, objective), strict=True):
            total += gradient[0].abs()
    for place, total in zip(own_attentions(model), totals, strict=True):
        expected = (total / total.norm()).tolist()
        assert [found[head] for head in place.heads] == pytest.approx(expected, abs=1e-12)

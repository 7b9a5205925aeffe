"""Greedy search against the definition, one sentence and one token at a time."""

from typing import Any

import pytest
import torch
from torch import Tensor

from qkv.core.errors import UsageError
from qkv.models.heads.linear import output_matrix
from qkv.models.transformer.model import Transformer
from qkv.search.base import Constraints, LengthLimits, SearchTask
from qkv.search.greedy import GreedyConfig
from qkv.search.hypothesis import Hypothesis
from qkv.search.models import PrefixSteps
from qkv.text import SPECIAL
from tests.support.small import VOCAB, batch_of, small_model
from tests.support.tables import END, TableSteps, random_sources, random_table, run_search, task_of

LENGTHS = [(5, 0), (1, 0), (0, 0), (7, 0), (3, 0), (3, 0)]
ALLOWED = [token for token in range(VOCAB) if token not in (SPECIAL.pad, SPECIAL.bos, SPECIAL.mask)]


def speaker(seed: int) -> Transformer:
    """A random model that says END every now and then: its row of the head is the longest."""
    model = small_model(seed, share_embeddings="none", residual="pre", encoder_layers=1, decoder_layers=1).eval()
    with torch.no_grad():
        output_matrix(model.head)[SPECIAL.eos] *= 2
    return model


def greedy(model: Transformer, seed: int = 0, longest: int = 8) -> list[Hypothesis]:
    batch = batch_of(LENGTHS, seed)
    task = SearchTask(batch.src, batch.src_keep, SPECIAL, [LengthLimits(longest)] * len(LENGTHS))
    return [best for (best,) in run_search(GreedyConfig(), PrefixSteps(model), task)]


def brute_force(model: Transformer, src: Tensor, longest: int) -> list[int]:
    """argmax of the whole model's output for the prefix, again and again."""
    prefix = [SPECIAL.bos]
    while len(prefix) <= longest:
        keep = torch.ones(1, len(src), dtype=torch.bool)
        with torch.no_grad():
            last = model.states(src[None], keep, torch.tensor([prefix]))[0, -1]
            scores = (output_matrix(model.head) @ last).tolist()
        best = max(ALLOWED, key=lambda token: scores[token])
        if best == SPECIAL.eos:
            break
        prefix.append(best)
    return prefix[1:]


def test_it_is_the_argmax_step_by_step() -> None:
    """Over several random models; some outputs end by themselves, some at the limit, in one batch."""
    lengths = set()
    for seed in (1, 4, 7, 9):
        model, batch = speaker(seed), batch_of(LENGTHS, seed)
        found = greedy(model, seed)
        for row, hypothesis in enumerate(found):
            assert hypothesis.tokens == brute_force(model, batch.src[row][batch.src_keep[row]], 8)
            assert hypothesis.ended == (len(hypothesis.tokens) < 8)
        lengths |= {len(hypothesis.tokens) for hypothesis in found}
    assert {0, 8} < lengths


def test_scores_are_the_log_probabilities_of_what_was_said() -> None:
    table = random_table(3, 12, end=1.0)
    sources = random_sources(20, 1)
    found = run_search(GreedyConfig(), TableSteps(table), task_of(sources, LengthLimits(4)))
    for source, (best,) in zip(sources, found, strict=True):
        said = (*best.tokens, END) if best.ended else tuple(best.tokens)
        assert best.token_scores == [table(tuple(source), said[:place])[token] for place, token in enumerate(said)]
        assert best.score == pytest.approx(sum(best.token_scores))
    assert {best.ended for (best,) in found} == {True, False}


def test_finished_sentences_leave_the_batch() -> None:
    steps, sources = TableSteps(random_table(3, 12, end=1.0)), random_sources(30, 1)
    found = run_search(GreedyConfig(), steps, task_of(sources, LengthLimits(20)))
    assert steps.all_rows == sum(len(best.token_scores) for (best,) in found)
    assert steps.steps == max(len(best.token_scores) for (best,) in found)
    assert len({len(best.tokens) for (best,) in found}) > 3


def test_it_ends_where_end_is_best() -> None:
    model = speaker(0)
    with torch.no_grad():
        model.get_parameter("decoder.final.weight").zero_()
        model.get_parameter("decoder.final.bias").fill_(1.0)
        output_matrix(model.head).zero_()[SPECIAL.eos] = 1.0
    assert [(best.tokens, best.ended) for best in greedy(model)] == [([], True)] * len(LENGTHS)


def never_ends(source: tuple[int, ...], said: tuple[int, ...]) -> list[float]:
    return [-torch.inf, -9.0, -torch.inf, -torch.inf, -torch.inf, -0.1, -0.2]


def test_a_shorter_limit_gives_the_beginning() -> None:
    model = speaker(1)
    long, short = (greedy(model, longest=longest) for longest in (8, 3))
    assert [each.tokens for each in short] == [each.tokens[:3] for each in long]


def test_among_equals_the_lowest_id_wins_and_some_are_never_said() -> None:
    """All tokens are equally probable: padding, the start and the mask are passed over."""
    model = speaker(0)
    with torch.no_grad():
        output_matrix(model.head).zero_()
    assert [best.tokens for best in greedy(model, longest=2)] == [[SPECIAL.unk, SPECIAL.unk]] * len(LENGTHS)


def test_padding_start_and_mask_are_never_said_even_if_they_are_best() -> None:
    model = speaker(2)
    with torch.no_grad():
        model.get_parameter("decoder.final.bias").fill_(1.0)
        output_matrix(model.head)[[SPECIAL.pad, SPECIAL.bos, SPECIAL.mask]] = 10.0
    said = {token for best in greedy(model, longest=5) for token in best.tokens}
    assert said
    assert said <= set(ALLOWED)


def test_no_gradient_is_kept_and_no_weight_changes() -> None:
    model = speaker(0)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    greedy(model)
    assert all(torch.equal(before[name], weight) for name, weight in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_one_output_only() -> None:
    with pytest.raises(UsageError, match="use the search kind beam"):
        run_search(GreedyConfig(), TableSteps(never_ends), task_of([[END]], LengthLimits(2), nbest=2))


@pytest.mark.parametrize(
    ("settings", "src_length", "model_limit", "limits"),
    [
        ({}, 5, None, LengthLimits(20, 0)),
        ({"max_factor": 1.5, "max_extra": 2}, 5, None, LengthLimits(9, 0)),
        ({"max_length": 7}, 5, None, LengthLimits(7, 0)),
        ({"max_length": 7}, 5, 4, LengthLimits(4, 0)),
        ({"min_length": 3, "min_factor": 0.5}, 5, None, LengthLimits(20, 3)),
        ({"min_length": 3, "min_factor": 0.7}, 5, None, LengthLimits(20, 4)),
        ({"min_factor": 1.0}, 50, 20, LengthLimits(20, 20)),
        ({"max_factor": 0.0, "max_extra": 0}, 5, None, LengthLimits(0, 0)),
        ({"min_factor": 3.0, "max_factor": 2.0, "max_extra": 0}, 5, None, LengthLimits(10, 10)),
    ],
)
def test_limits(settings: dict[str, Any], src_length: int, model_limit: int | None, limits: LengthLimits) -> None:
    assert GreedyConfig(**settings).limits(src_length, model_limit) == limits


def test_limits_that_leave_no_length_are_refused() -> None:
    with pytest.raises(ValueError, match="min_length 5 is more than max_length 4"):
        GreedyConfig(min_length=5, max_length=4)


def test_the_limit_is_raised_for_what_must_be_written() -> None:
    """One more than that, for END; but no further than the model can go."""
    search = GreedyConfig(max_length=7, min_length=6)
    assert search.limits(5, needed=6) == LengthLimits(7, 6)
    assert search.limits(5, needed=7) == LengthLimits(8, 6)
    assert search.limits(5, 5, needed=7) == LengthLimits(5, 5)
    assert Constraints(prefix=[5, 6], required=[[7], [8, 9]]).needed == 5

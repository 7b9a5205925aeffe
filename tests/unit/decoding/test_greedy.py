"""Greedy decoding against the definition, one sentence and one token at a time."""

import pytest
import torch
from torch import Tensor

from qkv.decoding.greedy import greedy
from qkv.models.seq2seq import Seq2Seq
from qkv.text import SPECIAL
from tests.support.small import VOCAB, batch_of, small_model

LENGTHS = [(5, 0), (1, 0), (0, 0), (7, 0), (3, 0), (3, 0)]
ALLOWED = [token for token in range(VOCAB) if token not in (SPECIAL.pad, SPECIAL.bos, SPECIAL.mask)]


def speaker(seed: int) -> Seq2Seq:
    """A random model that says END every now and then: its row of the head is the longest."""
    model = small_model(seed, share_embeddings="none", residual="pre", encoder_layers=1, decoder_layers=1).eval()
    with torch.no_grad():
        model.head.weight[SPECIAL.eos] *= 2
    return model


def brute_force(model: Seq2Seq, src: Tensor, max_length: int) -> list[int]:
    """argmax of the whole model's output for the prefix, again and again."""
    prefix = [SPECIAL.bos]
    while len(prefix) <= max_length:
        keep = torch.ones(1, len(src), dtype=torch.bool)
        with torch.no_grad():
            last = model(src[None], keep, torch.tensor([prefix]))[0, -1]
            scores = (model.head.weight @ last).tolist()
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
        found = greedy(model, batch.src, batch.src_keep, SPECIAL, 8)
        for row, ids in enumerate(found):
            assert ids == brute_force(model, batch.src[row][batch.src_keep[row]], 8)
        lengths |= {len(ids) for ids in found}
    assert {0, 8} < lengths


def test_a_batch_gives_what_each_sentence_gives_alone() -> None:
    model, batch = speaker(1), batch_of(LENGTHS, 3)
    together = greedy(model, batch.src, batch.src_keep, SPECIAL, 8)
    for row in range(len(LENGTHS)):
        src = batch.src[row][batch.src_keep[row]][None]
        assert greedy(model, src, torch.ones_like(src, dtype=torch.bool), SPECIAL, 8) == [together[row]]
    assert len({len(ids) for ids in together}) > 1


def test_it_ends_where_end_is_best() -> None:
    model, batch = speaker(0), batch_of(LENGTHS)
    with torch.no_grad():
        model.decoder.final.weight.zero_()
        model.decoder.final.bias.fill_(1.0)
        model.head.weight.zero_()
        model.head.weight[SPECIAL.eos] = 1.0
    assert greedy(model, batch.src, batch.src_keep, SPECIAL, 8) == [[]] * len(LENGTHS)


@pytest.mark.parametrize("limit", [0, 1, 5])
def test_it_stops_at_the_limit(limit: int) -> None:
    model, batch = speaker(0), batch_of(LENGTHS)
    with torch.no_grad():
        model.decoder.final.bias.fill_(1.0)
        model.head.weight[SPECIAL.eos] = -100.0
    assert [len(ids) for ids in greedy(model, batch.src, batch.src_keep, SPECIAL, limit)] == [limit] * len(LENGTHS)


def test_a_shorter_limit_gives_the_beginning() -> None:
    model, batch = speaker(1), batch_of(LENGTHS)
    long, short = (greedy(model, batch.src, batch.src_keep, SPECIAL, limit) for limit in (8, 3))
    assert short == [ids[:3] for ids in long]


def test_among_equals_the_lowest_id_wins_and_some_are_never_said() -> None:
    """All tokens are equally probable: padding, the start and the mask are passed over."""
    model, batch = speaker(0), batch_of(LENGTHS[:2])
    with torch.no_grad():
        model.head.weight.zero_()
    assert greedy(model, batch.src, batch.src_keep, SPECIAL, 2) == [[SPECIAL.unk, SPECIAL.unk]] * 2


def test_padding_start_and_mask_are_never_said_even_if_they_are_best() -> None:
    model, batch = speaker(2), batch_of(LENGTHS)
    with torch.no_grad():
        model.decoder.final.bias.fill_(1.0)
        model.head.weight[[SPECIAL.pad, SPECIAL.bos, SPECIAL.mask]] = 10.0
    said = {token for ids in greedy(model, batch.src, batch.src_keep, SPECIAL, 5) for token in ids}
    assert said
    assert said <= set(ALLOWED)


def test_no_gradient_is_kept_and_no_weight_changes() -> None:
    model, batch = speaker(0), batch_of(LENGTHS)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    greedy(model, batch.src, batch.src_keep, SPECIAL, 3)
    assert all(torch.equal(before[name], weight) for name, weight in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())

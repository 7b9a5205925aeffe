"""What is shown of a sentence is what the model computed: for every kind of part, against the definitions."""

from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from qkv.core.errors import UsageError
from qkv.data.batch import collate
from qkv.functional.attention import attention_weights, merge_heads
from qkv.layers.attention import Attention
from qkv.layers.attention.recording import capture_attention
from qkv.layers.positions import positions
from qkv.models.transformer.stacks import stacks
from qkv.models.transformer.wirings import wirings
from qkv.text.special import SPECIAL
from qkv.visual.see.embeddings import embedded_tokens, principal_plane
from qkv.visual.see.sentence import SeenSentence, see_sentence
from tests.support.attentions import ENCODER, everywhere
from tests.support.exported import decided_model
from tests.support.seen import copying, stepwise
from tests.support.small import transformer

TEXT = "w001 w017 w003 w005"
PARTS: list[dict[str, Any]] = [
    *({"positions": kind} for kind in positions.names()),
    *({"wiring": kind} for kind in wirings.names()),
    *({"stack": kind, "residual": "pre"} for kind in stacks.names()),
    *({"residual": kind} for kind in ("post", "pre", "sandwich", "deepnorm")),
    *(everywhere(setting) for setting in ENCODER[1:]),
]


def close(found: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(found, wanted, atol=2e-5, rtol=1e-4)


def teacher_forced(seen: SeenSentence) -> tuple[dict[str, list[Tensor]], Tensor]:
    """The weights of a pass that nobody else watches, and its log-probabilities."""
    model = transformer(seen.saved.model)
    ids = seen.saved.tokenizers.src.encode(seen.text)
    best = seen.decoded.best
    batch = collate([ids], [best.tokens if best.ended else best.tokens[:-1]], SPECIAL, SPECIAL, [0])
    with torch.no_grad(), capture_attention(model) as record:
        states = model(batch).states
    return record.passes, model.head.log_probs(states)[0]


@pytest.mark.parametrize("parts", PARTS, ids=str)
def test_weights_vectors_and_states_are_those_of_the_model(parts: dict[str, Any]) -> None:
    seen = see_sentence(decided_model(**parts), TEXT, {"kind": "beam", "size": 2})
    record, _ = teacher_forced(seen)
    model = transformer(seen.saved.model)
    places: dict[str, int] = {}
    for each in seen.attentions:
        place = places[each.name] = places.get(each.name, -1) + 1
        wanted = record[each.name][place]
        assert torch.equal(each.weights, (model.decoder.wiring.fold(wanted) if each.side == "cross" else wanted)[0])
        close(each.weights.sum(-1), torch.ones(each.weights.shape[:2]))
        if each.vectors is None:
            continue
        q, k, v = (part[None] for part in (each.vectors.q, each.vectors.k, each.vectors.v))
        mask = None if each.vectors.mask is None else each.vectors.mask[None, None]
        bias = None if each.vectors.bias is None else each.vectors.bias[None]
        assert (attention_weights(q, k, mask, bias)[0] - each.weights).abs().max() < 1e-4
        attention = model.get_submodule(each.name)
        assert isinstance(attention, Attention)
        joined = each.vectors.joined
        sums = merge_heads(each.weights[None] @ v)[0] if joined is None else joined
        close(attention.output(sums), seen.trace.sublayers[each.name][place].out)
    assert {each.side for each in seen.attentions} == {"encoder", "decoder", "cross"}
    if parts.get("stack") in (None, "layers"):
        assert all(len(passes) == 1 for passes in seen.trace.sublayers.values())


@pytest.mark.parametrize("residual", ["post", "pre"])
def test_the_state_after_one_sublayer_is_what_the_next_reads(residual: str) -> None:
    seen = see_sentence(decided_model(residual=residual), TEXT)
    passes = [one for own in seen.trace.sublayers.values() for one in own]
    encoder, decoder = passes[:4], passes[4:]
    for before, after in [*pairwise(encoder), *pairwise(decoder)]:
        assert torch.equal(before.result, after.x)
    for one in passes:
        if residual == "post":
            assert torch.equal(one.x, one.h)
            norms = [module for module in transformer(seen.saved.model).modules() if isinstance(module, nn.LayerNorm)]
            assert any(torch.allclose(norm(one.x + one.out), one.result, atol=1e-5) for norm in norms)
        else:
            close(one.x + one.out, one.result)


def test_probabilities_and_candidates_are_those_of_the_output() -> None:
    seen = see_sentence(decided_model(), TEXT, {"kind": "beam", "size": 3})
    _, log_probs = teacher_forced(seen)
    best = [one.label for one in seen.decoded.beam if one.best and one.step]
    assert best == ["END" if token == "</s>" else token for token in seen.written]
    assert seen.written[:-1] == seen.read[1:]
    close(torch.tensor(seen.probabilities), torch.tensor(seen.decoded.best.token_scores).exp())
    words = seen.saved.tokenizers.tgt
    for row, step in enumerate(seen.candidates):
        shares = [one.probability for one in step]
        assert shares == sorted(shares, reverse=True)
        (first,) = words.encode(step[0].token) if step[0].token != "</s>" else [SPECIAL.eos]
        assert first == int(log_probs[row].argmax())


def test_an_output_that_was_cut_has_no_end() -> None:
    seen = see_sentence(decided_model(end=0.001), TEXT, {"kind": "greedy", "max_length": 3})
    assert not seen.decoded.best.ended
    assert len(seen.read) == len(seen.written) == len(seen.probabilities) == 3
    assert all(each.weights.shape[1] == 3 for each in seen.attentions if each.side != "encoder")


def test_a_seen_model_is_as_it_was() -> None:
    saved = decided_model()
    before = {name: weight.clone() for name, weight in saved.model.state_dict().items()}
    first = see_sentence(saved, TEXT)
    again = see_sentence(saved, TEXT)
    assert first.output == again.output
    assert all(torch.equal(weight, before[name]) for name, weight in saved.model.state_dict().items())
    assert all(len(passes) == 1 for passes in first.trace.sublayers.values()), "its hooks are still there"


def test_what_cannot_be_shown_is_refused_in_a_sentence() -> None:
    with pytest.raises(UsageError, match="the text is empty"):
        see_sentence(decided_model(), "")
    with pytest.raises(UsageError, match="has one search, refine"):
        see_sentence(decided_model(decoder="nat"), TEXT, "greedy")


@pytest.mark.parametrize("decoder", ["nat", "canvas", "ctc", "dag", "mask_predict"])
def test_models_that_fill_a_canvas_show_their_last_pass(decoder: str) -> None:
    seen = see_sentence(decided_model(decoder=decoder), TEXT)
    last = seen.decoded.passes[-1]
    assert len(seen.written) == len(last) == len(seen.read)
    for place, cell in enumerate(last):
        assert (seen.read[place] == "<mask>") == cell.fresh
        if cell.fresh:
            assert seen.probabilities[place] == pytest.approx(cell.probability, rel=1e-3, abs=1e-5)


def test_drafts_of_speculative_decoding_give_the_output() -> None:
    saved = decided_model()
    seen = see_sentence(saved, TEXT, {"kind": "speculative", "max_length": 6})
    said = [token for one in seen.decoded.drafts for token in (*one.right, one.said)]
    assert said == ["END" if token == "</s>" else token for token in seen.written]
    assert seen.output == see_sentence(saved, TEXT, {"kind": "greedy", "max_length": 6}).output


def test_a_streaming_model_shows_what_it_had_read() -> None:
    parts: dict[str, Any] = {"encoder_attention": "causal", "cross_attention": {"kind": "wait_k", "k": 2}}
    seen = see_sentence(decided_model(**parts), TEXT, {"kind": "greedy", "max_length": 4})
    assert seen.delays is not None
    tokens, delays = seen.delays
    assert delays == [min(2 + step, len(seen.src_tokens)) for step in range(len(tokens))]
    assert see_sentence(decided_model(), TEXT).delays is None


def test_neighbours_and_the_plane() -> None:
    table = torch.zeros(9, 3)
    table[5:] = torch.tensor([[1.0, 0, 0], [2, 0.1, 0], [0, 1, 0], [0, 0, 1]])
    first, second = embedded_tokens(table, [5, 7, 5, 3, 99], str)
    assert (first.token, second.token) == ("5", "7")
    assert first.neighbours[0][0] == "6"
    assert first.neighbours[0][1] == pytest.approx(2 / (4.01**0.5))
    assert {name for name, _ in first.neighbours} == {"6", "7", "8"}
    points = torch.randn(6, 2, generator=torch.Generator().manual_seed(0))
    turned = points @ torch.tensor([[0.6, 0.8, 0, 0], [-0.8, 0.6, 0, 0]])
    plane = principal_plane(turned).float()
    close(torch.cdist(plane, plane), torch.cdist(points, points))


@pytest.mark.parametrize("kind", ["recurrent", "convolutional", "bytenet"])
def test_models_of_other_kinds_show_the_attention_that_they_have(kind: str) -> None:
    seen = stepwise(kind, TEXT)
    assert bool(seen.attentions) == (kind != "bytenet")
    for each in seen.attentions:
        assert each.side == "cross"
        assert each.weights.shape[1:] == (len(seen.written), len(seen.src_tokens))
        close(each.weights.sum(-1), torch.ones(each.weights.shape[:2]))


def test_a_head_that_copies_shows_its_gate_and_its_pointers() -> None:
    seen = copying("pointer_generator", "w001 unseen w003")
    assert seen.src_tokens[1] == "unseen"
    assert seen.copied is not None
    assert seen.copied.shape == (len(seen.written), 4)
    gate = seen.copied.sum(-1)
    assert bool(((gate > 0) & (gate < 1)).all())


def test_tokens_of_the_source_are_those_of_its_own_vocabulary() -> None:
    seen = see_sentence(decided_model(tgt_words=30), "w001 w017", {"kind": "greedy", "min_length": 2, "max_length": 3})
    assert seen.src_tokens == ["w001", "w017", "</s>"]
    assert all(token.startswith(("t", "<")) for token in seen.written)

"""Vectors of texts by the encoder of a translation model, and what is left out of them."""

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from qkv.models.saved.folder import SavedModel
from qkv.text import SPECIAL
from qkv.translate.ask.vectors import Pooling, TextVectors
from tests.support.small import transformer
from tests.support.speaker import sentences, speaker

TEXTS = [*sentences(12), "", "aa", "aa"]


@pytest.fixture(scope="module")
def saved() -> SavedModel:
    return speaker()


def assert_close(found: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)


def ids_of(saved: SavedModel, text: str) -> list[int]:
    return [*saved.tokenizers.src.encode_batch([text])[0], SPECIAL.eos]


@torch.no_grad()
def states_alone(saved: SavedModel, text: str) -> Tensor:
    """The states [S, D] of a text in a batch of its own, without padding."""
    src = torch.tensor([ids_of(saved, text)])
    return transformer(saved.model).encode(src, torch.ones_like(src, dtype=torch.bool))[0]


@torch.no_grad()
def test_a_vector_is_the_mean_of_the_encoders_states_of_the_real_tokens(saved: SavedModel) -> None:
    rows = [torch.tensor(ids_of(saved, text)) for text in TEXTS]
    src = pad_sequence(rows, batch_first=True, padding_value=SPECIAL.pad)
    keep = pad_sequence([torch.ones(len(row), dtype=torch.bool) for row in rows], batch_first=True)
    assert not keep.all()
    states = transformer(saved.model).encode(src, keep)
    wanted = (states * keep[..., None]).sum(dim=1) / keep.sum(dim=1, keepdim=True)
    found = TextVectors(saved).sentences(TEXTS)
    assert_close(found, wanted)
    # The mean of all positions is another vector.
    assert (states.mean(dim=1) - found).abs().max() > 0.1


def test_vectors_do_not_depend_on_the_other_texts(saved: SavedModel) -> None:
    vectors = TextVectors(saved)
    alone = torch.stack([states_alone(saved, text).mean(dim=0) for text in TEXTS])
    together = vectors.sentences(TEXTS)
    assert_close(together, alone)
    assert_close(vectors.sentences(TEXTS[::-1]), together.flip(0))
    different = torch.cdist(together[:12], together[:12]) + 10 * torch.eye(12)
    assert different.min() > 0.01


def test_other_poolings_take_the_first_state_or_all(saved: SavedModel) -> None:
    vectors = TextVectors(saved)
    encoded = vectors.encode(TEXTS)
    for text, own in zip(TEXTS, encoded, strict=True):
        assert own.tokens == [*text.split(), "</s>"]
        assert not own.cut
        assert_close(own.pooled("tokens"), states_alone(saved, text))
    firsts = torch.stack([states_alone(saved, text)[0] for text in TEXTS])
    assert_close(vectors.sentences(TEXTS, "first"), firsts)


@pytest.mark.parametrize("pooling", ["mean", "first", "tokens"])
def test_normalised_vectors_have_length_one_and_the_same_direction(saved: SavedModel, pooling: Pooling) -> None:
    for own in TextVectors(saved).encode(TEXTS):
        plain, normal = own.pooled(pooling), own.pooled(pooling, normalize=True)
        lengths = plain.norm(dim=1, keepdim=True)
        assert (lengths - 1).abs().min() > 0.01
        assert_close(normal * lengths, plain)
        assert_close(normal.norm(dim=1), torch.ones(len(normal)))


def test_a_text_beyond_the_last_position_is_cut_and_says_so() -> None:
    saved = speaker(positions={"kind": "learned", "max_length": 4})
    short, long = TextVectors(saved).encode(["aa ab ac", "aa ab ac ba bb"])
    assert (short.cut, long.cut) == (False, True)
    assert short.tokens == long.tokens == ["aa", "ab", "ac", "</s>"]
    assert_close(short.states, long.states)

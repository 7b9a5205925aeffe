"""The memory network against its equations as loops, and the properties by which it is defined."""

import pytest
import torch
from torch import Tensor

from qkv.core.errors import UsageError
from qkv.data.batch import Batch, collate
from qkv.functional.attention import scaled_dot_product
from qkv.functional.memory import linear_recall, recall, word_order
from qkv.layers.attention.recording import capture_attention
from qkv.models.memory_network.config import MemoryNetworkConfig
from qkv.models.memory_network.model import MemoryNetwork
from qkv.text import SPECIAL, TextConfig, WhitespaceConfig
from tests.support.small import stir

WIDTH, HOPS = 6, 2
STORIES = ["a b c . b a . c c b a . a c ?", "c a . b ?", "a ?"]
TOKENIZERS = TextConfig(shared=WhitespaceConfig()).train(lambda: STORIES, lambda: ["b"])


def network(**keys: bool) -> MemoryNetwork:
    torch.manual_seed(0)
    model = MemoryNetworkConfig(d_model=WIDTH, hops=HOPS, dropout=0.0, max_sentences=4, **keys).build(TOKENIZERS)
    stir(model)
    return model.double().eval()


def batch_of(stories: list[str], answers: list[str]) -> Batch:
    sides = (TOKENIZERS.src.encode_batch(stories), TOKENIZERS.tgt.encode_batch(answers))
    return collate(*sides, SPECIAL, SPECIAL, range(len(stories)))


def sentence(words: list[str], table: Tensor, ordered: bool) -> Tensor:
    """Σ_j l_j E x_j, number by number."""
    found = torch.zeros(WIDTH, dtype=torch.float64)
    for j, word in enumerate(words, start=1):
        (number,) = TOKENIZERS.src.encode(word)
        for k in range(1, WIDTH + 1):
            share = j / len(words)
            weight = (1 - share) - (k / WIDTH) * (1 - 2 * share) if ordered else 1.0
            found[k - 1] += weight * table[number, k - 1]
    return found


def by_loops(model: MemoryNetwork, story: str, tgt_in: list[int], linear: bool) -> Tensor:
    *told, question = [part.split() for part in story.split(".")]
    tables = [model.get_submodule(f"tables.{number}").get_parameter("weight") for number in range(HOPS + 1)]
    states = []
    for step in range(len(tgt_in)):
        u = sentence(question, tables[0], model.ordered)
        for token in tgt_in[: step + 1]:
            u = u + tables[0][token]
        for hop in range(HOPS):
            m, c = [], []
            for age, words in enumerate(reversed(told)):
                time = torch.zeros(HOPS + 1, WIDTH) if model.times is None else model.times[:, age]
                m.append(sentence(words, tables[hop], model.ordered) + time[hop])
                c.append(sentence(words, tables[hop + 1], model.ordered) + time[hop + 1])
            if m:
                scores = torch.stack([u @ each for each in m])
                weights = scores if linear else torch.softmax(scores, dim=0)
                u = u + sum((w * each for w, each in zip(weights, c, strict=True)), torch.zeros(WIDTH).double())
        states.append(u)
    return torch.stack(states)


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("plain", [False, True])
@torch.no_grad()
def test_the_model_is_its_equations(linear: bool, plain: bool) -> None:
    model = network(linear=linear, position_encoding=not plain, temporal_encoding=not plain)
    batch = batch_of(STORIES, ["b", "c a", "b"])
    found = model(batch).states
    for row, story in enumerate(STORIES):
        wanted = by_loops(model, story, batch.tgt_in[row].tolist(), linear)
        torch.testing.assert_close(found[row], wanted, atol=1e-12, rtol=0)


def test_one_hop_is_attention_with_keys_m_and_values_c() -> None:
    u, m, c = (torch.randn(2, n, WIDTH, dtype=torch.float64) for n in (3, 5, 5))
    keep = torch.tensor([[True] * 5, [True, True, True, False, False]])
    found, weights = recall(u, m, c, keep)
    wanted, expected = scaled_dot_product(u[:, None] * WIDTH**0.5, m[:, None], c[:, None], keep[:, None, None])
    torch.testing.assert_close(found, wanted[:, 0], atol=1e-12, rtol=0)
    torch.testing.assert_close(weights, expected[:, 0], atol=1e-12, rtol=0)
    linear, scores = linear_recall(u, m, c, keep)
    torch.testing.assert_close(scores[1, 0, :3], m[1, :3] @ u[1, 0], atol=1e-12, rtol=0)
    torch.testing.assert_close(linear[1, 0], scores[1, 0, :3] @ c[1, :3], atol=1e-12, rtol=0)


@torch.no_grad()
def test_the_order_of_sentences_is_known_by_their_times_alone() -> None:
    stories = batch_of(["a b c . b a . a c ?", "b a . a b c . a c ?"], ["b", "b"])
    one, other = network(temporal_encoding=False)(stories).states
    torch.testing.assert_close(one, other, atol=1e-12, rtol=0)
    one, other = network()(stories).states
    assert not torch.allclose(one, other)


@torch.no_grad()
def test_the_order_of_words_is_known_by_their_places_alone() -> None:
    stories = batch_of(["a b c . a c ?", "c b a . a c ?"], ["b", "b"])
    one, other = network(position_encoding=False)(stories).states
    torch.testing.assert_close(one, other, atol=1e-12, rtol=0)
    one, other = network()(stories).states
    assert not torch.allclose(one, other)


@torch.no_grad()
def test_a_full_memory_holds_the_newest_sentences() -> None:
    long = "c . a b c . b a . c c b a . b . a c ?"
    one, other = network()(batch_of([long, long.removeprefix("c . ")], ["b", "b"])).states
    torch.testing.assert_close(one, other, atol=1e-12, rtol=0)


def test_weights_over_sentences_are_recorded_newest_first() -> None:
    model, batch = network(), batch_of(STORIES, ["b", "b", "b"])
    with capture_attention(model) as record:
        model(batch)
    assert list(record) == ["hops.0", "hops.1"]
    weights = record["hops.0"]
    assert weights.shape == (3, 1, 2, 3)
    torch.testing.assert_close(weights[1, 0, 0], torch.tensor([1.0, 0, 0]).double())
    assert not weights[2].any()


def test_the_first_and_the_last_word_have_the_weights_of_the_paper() -> None:
    found = word_order(torch.tensor([1.0, 4.0]), torch.tensor([4.0, 4.0]), 4)
    wanted = [[0.75 - k / 4 * 0.5 for k in range(1, 5)], [k / 4 for k in range(1, 5)]]
    torch.testing.assert_close(found, torch.tensor(wanted))


def test_a_separator_that_is_no_token_is_refused() -> None:
    with pytest.raises(UsageError, match=r"model.separator 'x y' is not one token of the tokenizer"):
        MemoryNetworkConfig(separator="x y").build(TOKENIZERS)
    with pytest.raises(ValueError, match="adjacent hops share their tables"):
        MemoryNetworkConfig(share_embeddings="all")
    assert "needs one tokenizer" in str(MemoryNetworkConfig().data_problem(9, 9, shared_tokenizer=False))

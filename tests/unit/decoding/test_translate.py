"""Texts in, texts out, in their order."""

import random
from functools import lru_cache

import pytest
import torch

from qkv.decoding.translate import translate_greedily
from qkv.models.folder import new_model
from qkv.models.seq2seq import Seq2Seq
from qkv.text import SPECIAL
from tests.support.small import WORDS, small_config, small_text, stir

_, TOKENIZERS = small_text()


def model_for(seed: int = 3) -> Seq2Seq:
    torch.manual_seed(seed)
    model = new_model(
        small_config(residual="pre", share_embeddings="none", encoder_layers=1, decoder_layers=1), TOKENIZERS
    )
    stir(model)
    return model


def endless() -> Seq2Seq:
    """Never says END."""
    model = model_for()
    with torch.no_grad():
        model.decoder.final.bias.fill_(1.0)
        model.head.weight[SPECIAL.eos] = -100.0
    return model


def texts(count: int = 8) -> list[str]:
    source = random.Random(4)
    return [" ".join(source.choices(WORDS, k=source.randint(1, 5))) for _ in range(count)]


@lru_cache
def one_by_one() -> list[str]:
    return [translate_greedily(model_for(), TOKENIZERS, [text])[0] for text in texts()]


@pytest.mark.parametrize("batch_tokens", [1, 20, 4096])
def test_each_text_gets_its_own_output_in_order(batch_tokens: int) -> None:
    """Whatever the batches: the outputs are those of the texts one by one."""
    model, given, alone = model_for(), texts(), one_by_one()
    assert len(set(alone)) > 3
    assert translate_greedily(model, TOKENIZERS, given, batch_tokens) == alone
    assert translate_greedily(model, TOKENIZERS, given[::-1], batch_tokens) == alone[::-1]


def test_the_limit_is_that_of_the_text_and_not_of_its_batch() -> None:
    """2 |source| + 10 tokens, END included in the source's length."""
    given = ["aa", "aa ab ac ba bb bc", ""]
    model = endless()
    outputs = translate_greedily(model, TOKENIZERS, given)
    assert [len(output.split()) for output in outputs] == [14, 24, 12]
    assert outputs == [translate_greedily(model, TOKENIZERS, [text])[0] for text in given]


def test_an_empty_line_is_a_text_too() -> None:
    given = ["", "aa", "   ", "ab"]
    outputs = translate_greedily(model_for(), TOKENIZERS, given)
    assert len(outputs) == 4
    assert outputs[0] == outputs[2]
    assert translate_greedily(model_for(), TOKENIZERS, [""]) == [outputs[0]]


def test_no_texts_no_outputs() -> None:
    assert translate_greedily(model_for(), TOKENIZERS, []) == []


def test_unknown_words_are_no_reason_to_stop() -> None:
    outputs = translate_greedily(model_for(), TOKENIZERS, ["zz </s> <pad>", "zz zz zz"])
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize("training", [True, False])
def test_dropout_is_off_and_the_mode_comes_back(training: bool) -> None:
    torch.manual_seed(0)
    model = new_model(small_config(dropout=0.9), TOKENIZERS).train(training)
    first, second = (translate_greedily(model, TOKENIZERS, texts()) for _ in range(2))
    assert first == second
    assert model.training is training


def test_the_mode_comes_back_after_an_interruption() -> None:
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    model = model_for().train()
    with pytest.raises(KeyboardInterrupt):
        translate_greedily(model, TOKENIZERS, texts(), progress=stop)
    assert model.training


def test_progress_counts_texts_up_to_all_of_them() -> None:
    seen: list[tuple[int, int]] = []
    translate_greedily(model_for(), TOKENIZERS, texts(), 20, lambda done, total: seen.append((done, total)))
    assert len(seen) > 1
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert len({done for done, _ in seen}) > 2
    assert seen[-1] == (8, 8)
    assert {total for _, total in seen} == {8}

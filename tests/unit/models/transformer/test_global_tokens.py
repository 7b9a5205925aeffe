"""Global tokens that a recipe names by their text."""

import pytest
import torch
from torch import Tensor

from qkv.core.errors import QkvError, UsageError
from qkv.data.tasks.labelled import text_rows
from qkv.inference.transformer import TransformerInference
from qkv.layers.attention import LongformerAttention
from qkv.layers.attention.context import AttentionContext
from qkv.models.base import Model
from qkv.models.kinds import models
from qkv.models.transformer.model import Transformer
from tests.support.small import small_config, small_model, small_text, stir

_, TOKENIZERS = small_text()
WORDS = ["ca", "cb"]


def model_with(tokens: list[str]) -> Transformer:
    torch.manual_seed(0)
    setting = {"kind": "longformer", "window": 2, "global_positions": [1], "global_tokens": tokens}
    return small_config(encoder_attention=setting, encoder_layers=1).build(TOKENIZERS).eval()


def global_at(model: Transformer, texts: list[str]) -> Tensor:
    attention = model.encoder.layers[0].attention
    assert isinstance(attention, LongformerAttention)
    ids = torch.tensor([TOKENIZERS.src.encode(text) for text in texts])
    pos = torch.arange(ids.shape[1])
    keep = torch.ones_like(ids, dtype=torch.bool)
    keep[1, -1] = False
    return attention.is_global(AttentionContext(pos, pos, keep=keep, tokens=ids), len(texts))


def test_they_are_found_wherever_they_stand_and_are_real() -> None:
    found = global_at(model_with(["ca", "cb"]), ["aa ab ac ca", "cb cb ab ca"])
    assert found.int().tolist() == [[0, 1, 0, 1], [1, 1, 0, 0]]


def test_the_encoder_is_told_the_ids_also_without_gradients() -> None:
    """A mark at the end changes what the first token reads, far outside of its window."""
    ids = torch.tensor([TOKENIZERS.src.encode("aa ab " + "ac " * 10 + last) for last in ("ca", "cb")])
    keep = torch.ones_like(ids, dtype=torch.bool)
    with torch.no_grad():
        for tokens, changes in (["ca", "cb"], True), (["bb"], False):
            model = model_with(tokens)
            memory = model.encode(ids, keep)
            torch.testing.assert_close(TransformerInference(model).encode(ids, keep), memory)
            assert torch.allclose(memory[0, 4], memory[1, 4], atol=1e-6) is not changes


def test_a_token_that_the_vocabulary_lacks_is_named() -> None:
    with pytest.raises(UsageError, match="global_tokens: 'zz' is not a token of the source"):
        model_with(["zz"])


@pytest.mark.parametrize("kind", ["masked_lm", "classifier", "tagger"])
def test_the_encoder_of_texts_is_told_the_ids(kind: str) -> None:
    def model_of(*tokens: str) -> Model:
        torch.manual_seed(0)
        attention = {"kind": "longformer", "window": 2, "global_tokens": tokens}
        sizes = {"d_model": 8, "d_ff": 16, "num_heads": 2, "num_layers": 1, "dropout": 0.0}
        model = models[kind].model_validate({**sizes, "attention": attention}).build(TOKENIZERS).eval()
        stir(model)
        return model

    texts = [TOKENIZERS.src.encode("aa ab " + "ac " * 10 + last) for last in WORDS]
    one, other = (text_rows([ids], TOKENIZERS.src, [0]) for ids in texts)
    with torch.no_grad():
        for tokens, changes in (WORDS, True), (["bb"], False):
            model = model_of(*tokens)
            first, second = (model(batch).states[0, 0] for batch in (one, other))
            assert torch.allclose(first, second, atol=1e-7) is not changes
    with pytest.raises(UsageError, match=r"model.attention.global_tokens: 'zz' is not a token of the source"):
        model_of("zz")


@pytest.mark.parametrize("kind", ["vision", "forecasting"])
def test_patches_have_no_text(kind: str) -> None:
    attention = {"kind": "longformer", "window": 2, "global_tokens": ["aa"]}
    with pytest.raises(ValueError, match=r"attention.global_tokens: patches have no text; use global_positions"):
        models[kind].model_validate({**models[kind].EXAMPLE, "attention": attention})


def test_a_model_that_was_never_told_the_ids_says_so() -> None:
    model = small_model(encoder_attention={"kind": "longformer", "window": 2, "global_tokens": ["aa"]})
    with pytest.raises(QkvError, match=r"ids of global_tokens \(aa\) are not known"):
        model.encode(torch.tensor([[5, 6]]), torch.ones(1, 2, dtype=torch.bool))

"""Seen sentences of models and searches that are not the plain Transformer with a beam."""

from typing import Any

import torch

from qkv.models.config import ModelConfig, models
from qkv.models.saved.folder import SavedConfig, SavedModel
from qkv.text import TextConfig, TokenizerPair, WhitespaceConfig
from qkv.visual.see.sentence import SeenSentence, see_sentence
from tests.support.exported import decided_model, words_tokenizer
from tests.support.small import small_config, stir

SHORT: dict[str, Any] = {"kind": "greedy", "max_length": 4}


def random_model(config: ModelConfig) -> SavedModel:
    """With one tokenizer of forty words for both sides."""
    words = words_tokenizer()
    pair = config.tokenizers(TokenizerPair(words, words))
    torch.manual_seed(0)
    saved = SavedModel(
        config.build(pair).eval(), pair, SavedConfig(model=config, text=TextConfig(shared=WhitespaceConfig()))
    )
    stir(saved.model)
    return saved


def stepwise(kind: str, text: str) -> SeenSentence:
    """A recurrent or convolutional model."""
    return see_sentence(random_model(models[kind](d_model=16, dropout=0.0)), text, SHORT, kind)


def copying(head: str, text: str) -> SeenSentence:
    """A Transformer with a head that copies."""
    return see_sentence(random_model(small_config(head=head)), text, SHORT, head)


def transformer_with(name: str, text: str, search: dict[str, Any] | None, **parts: Any) -> SeenSentence:
    """A Transformer with other parts."""
    return see_sentence(decided_model(**parts), text, search, name)

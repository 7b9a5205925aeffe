"""Tokens that a recipe names by their text, found in the vocabulary of the source."""

from torch import nn

from qkv.core.errors import UsageError
from qkv.layers.attention import AttentionConfig, LongformerAttention, LongformerConfig
from qkv.text import TokenizerPair


def find_global_tokens(encoder: nn.Module, tokenizers: TokenizerPair, key: str) -> None:
    """Tell the encoder the ids of its global tokens; raises UsageError for one that the vocabulary does not have.

    `key` is the setting that names them.
    """
    wanting = [module for module in encoder.modules() if isinstance(module, LongformerAttention)]
    if not any(module.global_tokens for module in wanting):
        return
    ids = {piece: i for i, piece in enumerate(tokenizers.src.tokens(range(len(tokenizers.src))))}

    def id_of(token: str) -> int:
        if token not in ids:
            raise UsageError(
                f"{key}.global_tokens: {token!r} is not a token of the source; "
                "name pieces as the tokenizer shows them (a space is ▁)"
            )
        return ids[token]

    for module in wanting:
        module.learn_ids(id_of)


def require_no_global_tokens(attention: AttentionConfig) -> None:
    """Raises ValueError if attention over patches names tokens."""
    if isinstance(attention, LongformerConfig) and attention.global_tokens:
        raise ValueError("attention.global_tokens: patches have no text; use global_positions")

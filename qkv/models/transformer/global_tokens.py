"""Tokens that a recipe names by their text, found in the vocabulary of the source."""

from qkv.core.errors import UsageError
from qkv.layers.attention import LongformerAttention
from qkv.models.transformer.model import Transformer
from qkv.text import TokenizerPair


def find_global_tokens(model: Transformer, tokenizers: TokenizerPair) -> None:
    """Tell the encoder the ids of its global tokens; raises UsageError for one that the vocabulary does not have."""
    wanting = [module for module in model.encoder.modules() if isinstance(module, LongformerAttention)]
    if not any(module.global_tokens for module in wanting):
        return
    ids = {piece: i for i, piece in enumerate(tokenizers.src.tokens(range(len(tokenizers.src))))}

    def id_of(token: str) -> int:
        if token not in ids:
            raise UsageError(
                f"model.encoder_attention.global_tokens: {token!r} is not a token of the source; "
                "name pieces as the tokenizer shows them (a space is ▁)"
            )
        return ids[token]

    for module in wanting:
        module.learn_ids(id_of)

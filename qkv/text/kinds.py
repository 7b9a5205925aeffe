"""All kinds of tokenizer, and the type of a configuration field that may be any of them."""

from typing import Annotated, TypeAlias

from qkv.text.byte_pair import BytePairConfig
from qkv.text.character import CharacterConfig
from qkv.text.extra.huggingface import HuggingFaceConfig
from qkv.text.extra.labels import LabelsConfig
from qkv.text.sentence_piece import SentencePieceConfig
from qkv.text.tokenizer import TokenizerConfig, tokenizers
from qkv.text.whitespace import WhitespaceConfig

AnyTokenizer: TypeAlias = Annotated[TokenizerConfig, tokenizers]

__all__ = [
    "AnyTokenizer",
    "BytePairConfig",
    "CharacterConfig",
    "HuggingFaceConfig",
    "LabelsConfig",
    "SentencePieceConfig",
    "WhitespaceConfig",
]

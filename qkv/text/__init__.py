"""Text to ids and back: normalisation, tokenizers, special ids."""

from qkv.text.folder import TextConfig, TokenizerPair, load_tokenizers
from qkv.text.kinds import AnyTokenizer, BytePairConfig, CharacterConfig, SentencePieceConfig, WhitespaceConfig
from qkv.text.normalize import NormalizeConfig, normalize
from qkv.text.special import SPECIAL, SpecialIds
from qkv.text.tokenizer import Tokenizer, TokenizerConfig, fingerprint, tokenizers

__all__ = [
    "SPECIAL",
    "AnyTokenizer",
    "BytePairConfig",
    "CharacterConfig",
    "NormalizeConfig",
    "SentencePieceConfig",
    "SpecialIds",
    "TextConfig",
    "Tokenizer",
    "TokenizerConfig",
    "TokenizerPair",
    "WhitespaceConfig",
    "fingerprint",
    "load_tokenizers",
    "normalize",
    "tokenizers",
]

"""Models of Hugging Face as models of qkv: a file for each family."""

from qkv.export.importing import bert, gpt2, vit
from qkv.export.importing.base import importers

__all__ = ["bert", "gpt2", "importers", "vit"]

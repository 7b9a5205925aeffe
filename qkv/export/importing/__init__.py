"""Models of Hugging Face as models of qkv: a file for each family."""

from qkv.export.importing import gpt2
from qkv.export.importing.base import importers

__all__ = ["gpt2", "importers"]

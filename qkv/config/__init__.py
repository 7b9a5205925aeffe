"""Typed, checked configuration: YAML files, overrides, error messages, the reference page."""

from qkv.config.base import Config, ExtensibleConfig, Kinds
from qkv.config.load import differing_keys, dump_config, load_config, validate, with_overrides
from qkv.config.names import Names
from qkv.config.overrides import apply_overrides
from qkv.config.parse import Document
from qkv.config.periods import Period
from qkv.config.reference import reference_page, schema
from qkv.config.yaml import read_yaml, write_yaml

__all__ = [
    "Config",
    "Document",
    "ExtensibleConfig",
    "Kinds",
    "Names",
    "Period",
    "apply_overrides",
    "differing_keys",
    "dump_config",
    "load_config",
    "read_yaml",
    "reference_page",
    "schema",
    "validate",
    "with_overrides",
    "write_yaml",
]

"""The resolved configuration as YAML: every key, defaults too, so that a run can be repeated."""

from qkv.config.base import Config
from qkv.config.yaml import write_yaml


def dump_config(config: Config) -> str:
    """YAML text from which `load_config` makes an equal config."""
    return write_yaml(config.model_dump(mode="json"))

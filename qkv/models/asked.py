"""A verb takes the models that are asked for what it does, and refuses the others by name."""

from qkv.core.errors import UsageError
from qkv.models.config import ModelConfig, Seq2SeqConfig


def require_asked(config: ModelConfig, asked: str, where: object) -> None:
    """Refuse, by name, a model that is for something else; `where` is its folder."""
    if config.asked != asked:
        raise UsageError(f"{where}: is a model of the kind {config.kind}: {config.answered_by}")


def require_seq2seq(config: ModelConfig, where: object) -> Seq2SeqConfig:
    """`config`, if it is of a model from a source to a target; else raises UsageError."""
    if not isinstance(config, Seq2SeqConfig):
        raise UsageError(f"{where}: is a model of the kind {config.kind}: {config.answered_by}")
    return config

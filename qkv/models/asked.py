"""What a trained model is asked for, and by which command."""

from qkv.core.errors import UsageError
from qkv.models.config import ModelConfig, Seq2SeqConfig

ANSWERED_BY = {
    "translate": "qkv translate MODEL writes its outputs",
    "generate": "qkv generate MODEL continues texts, qkv perplexity MODEL measures it",
    "embed": "qkv embed MODEL writes its vectors",
    "label": "qkv label MODEL writes the labels of texts or of their words",
    "classify": "qkv classify MODEL names the classes of images",
    "forecast": "qkv forecast MODEL continues series",
}
"""What a model may be asked for (`ModelConfig.asked`) -> the command that asks it."""


def require_asked(config: ModelConfig, asked: str, where: object) -> None:
    """Refuse, by name, a model that is for something else; `where` is its folder."""
    if config.asked != asked:
        raise UsageError(f"{where}: is a model of the kind {config.kind}: {ANSWERED_BY[config.asked]}")


def require_seq2seq(config: ModelConfig, where: object) -> Seq2SeqConfig:
    """`config`, if it is of a model from a source to a target; else raises UsageError."""
    if not isinstance(config, Seq2SeqConfig):
        raise UsageError(f"{where}: is a model of the kind {config.kind}: {ANSWERED_BY[config.asked]}")
    return config

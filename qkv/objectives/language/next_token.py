"""The next token of a text: teacher forcing without a source."""

from qkv.models.config import ModelConfig
from qkv.objectives.base import Objective
from qkv.objectives.build import objective_kinds
from qkv.objectives.smoothing import Frequencies
from qkv.objectives.teacher_forcing import ObjectiveConfig
from qkv.text.folder import TokenizerPair


def foreign_keys(config: ObjectiveConfig, model: ModelConfig, known: tuple[str, ...]) -> str | None:
    """Why the objective's settings do not go with the model, if one of them is neither `known` nor its default."""
    default = ObjectiveConfig()
    for name in ObjectiveConfig.model_fields:
        if name not in known and getattr(config, name) != getattr(default, name):
            return f"objective.{name} is not for model.kind {model.kind}; leave it out"
    return None


class NextToken:
    """-log p(x_t | x_<t), summed over the tokens and the end of each text."""

    def problem(self, config: ObjectiveConfig, model: ModelConfig) -> str | None:
        return foreign_keys(config, model, ("smoothing", "noise", "consistency"))

    def build(
        self, config: ObjectiveConfig, model: ModelConfig, tokenizers: TokenizerPair, frequencies: Frequencies
    ) -> Objective:
        return config.build(len(tokenizers.tgt), tokenizers.tgt.special, frequencies)


objective_kinds.register("next_token", NextToken())

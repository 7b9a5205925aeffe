"""The next token of a text: teacher forcing without a source."""

from qkv.models.config import ModelConfig
from qkv.objectives.base import Objective
from qkv.objectives.build import ObjectiveKind, foreign_keys, objective_kinds
from qkv.objectives.smoothing import Frequencies
from qkv.objectives.teacher_forcing import ObjectiveConfig
from qkv.text.folder import TokenizerPair


class NextToken(ObjectiveKind):
    """-log p(x_t | x_<t), summed over the tokens and the end of each text."""

    def problem(self, config: ObjectiveConfig, model: ModelConfig) -> str | None:
        return foreign_keys(config, model, ("smoothing", "noise", "consistency"))

    def build(
        self, config: ObjectiveConfig, model: ModelConfig, tokenizers: TokenizerPair, frequencies: Frequencies
    ) -> Objective:
        return config.build(len(tokenizers.tgt), tokenizers.tgt.special, frequencies)


objective_kinds.register("next_token", NextToken())

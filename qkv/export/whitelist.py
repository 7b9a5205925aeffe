"""What an export supports: anything else is rejected by name; tokens that are no output get a bias of -inf or near."""

from collections.abc import Collection, Mapping

import torch
from torch import Tensor, nn

from qkv.config.base import Config
from qkv.core.errors import UsageError
from qkv.layers.attention import AttentionConfig, FullConfig
from qkv.models.config import ModelConfig
from qkv.models.transformer.config import TransformerConfig
from qkv.text.special import NEVER_OUTPUT

NEVER = -30_000.0
"""The probability is 0, and a half-precision number can still hold it."""


def output_bias(tokens: int, size: int) -> Tensor:
    """[size], 0 for what may be output of the first `tokens` ids; what follows only fills the matrix up."""
    bias = torch.full((size,), NEVER)
    bias[:tokens] = 0.0
    bias[list(NEVER_OUTPUT)] = NEVER
    return bias


KINDS = ("residual", "positions", "feed_forward")
ATTENTIONS = ("encoder_attention", "decoder_attention", "cross_attention")
SIZES = ("preset", "d_model", "d_ff", "num_heads", "encoder_layers", "decoder_layers")
EMPTY_HEADS = ("pruned_heads",)
"""Exports have one number of heads: `with_even_heads` fills it up with heads that give 0."""
TRAINING_ONLY = ("dropout", "attention_dropout", "feed_forward_dropout", "position_offsets")
MEMORY_ONLY = ("feed_forward_chunk",)
SPEED_ONLY = ("draft",)
SHARING = ("share_embeddings", "share_layers")
AllowedConfigs = Mapping[str, Collection[type[Config]]]
"""The kinds of each part that a format has."""


def unknown_parts(config: ModelConfig, allowed: AllowedConfigs, target: str, known: Collection[str]) -> list[str]:
    """Why `target` cannot hold this model: parts of a kind that is not in `allowed`, and settings not in `known`."""
    if not isinstance(config, TransformerConfig):
        return [f"{target} has no form of model.kind {config.kind}"]
    reasons = []
    for part in KINDS:
        value = getattr(config, part)
        if type(value) not in allowed[part]:
            reasons.append(f"{target} has no form of model.{part}.kind {value.kind}")
    for place in ATTENTIONS:
        if other := _unlike_the_paper(getattr(config, place)):
            reasons.append(f"{target} has no form of model.{place}.{other}")
    understood = {*known, *KINDS, *ATTENTIONS, *SIZES, *TRAINING_ONLY, *MEMORY_ONLY, *SPEED_ONLY, *EMPTY_HEADS}
    for name, field in type(config).model_fields.items():
        value, default = getattr(config, name), field.get_default(call_default_factory=True)
        if name in understood or value == default:
            continue
        if getattr(value, "kind", None) != getattr(default, "kind", None):
            reasons.append(f"{target} has no form of model.{name}.kind {value.kind}")
        else:
            reasons.append(f"the export to {target} does not know model.{name}")
    return reasons


def _unlike_the_paper(attention: AttentionConfig) -> str | None:
    """Differences from plain multi-head attention."""
    plain = FullConfig()
    if not isinstance(attention, FullConfig):
        return f"kind {attention.kind}"
    if attention.score != plain.score:
        return f"score {attention.score.kind}"
    if attention.normalizer != plain.normalizer:
        return f"normalizer {attention.normalizer.kind}"
    return None if attention.kv_heads is None else f"kv_heads {attention.kv_heads}"


def norm_epsilon(model: nn.Module) -> float:
    """The epsilon of all layer norms, for formats that have one for a whole model; raises UsageError if they differ."""
    found = sorted({module.eps for module in model.modules() if isinstance(module, nn.LayerNorm)})
    if len(found) > 1:
        listed = ", ".join(f"{epsilon:g}" for epsilon in found)
        raise UsageError(f"the model cannot be exported: its norms have different epsilons ({listed})")
    return found[0]

"""The pointer-generator (See et al. 2017; in the Transformer: Enarvi et al. 2020)."""

import math
from typing import Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from qkv.functional.copying.mixture import pointer_generator
from qkv.models.heads.base import NO_CONTEXT, AttentionChoice, Head, HeadContext, heads
from qkv.models.heads.copying import CopyHead, CopyHeadConfig
from qkv.text.special import SPECIAL


@heads.register
class PointerGeneratorConfig(CopyHeadConfig):
    """p = p_gen softmax(W h) + (1 - p_gen) attention over the source (See et al. 2017)."""

    kind: Literal["pointer_generator"] = "pointer_generator"
    attention: Literal["cross", "own"] = "cross"
    """The attention that copies: the decoder's cross-attention, or one that the head has for itself."""
    layers: list[int] | None = Field(default=None, min_length=1)
    """With `cross`: the decoder layers, counted from 1, whose mean it is; null: the last one."""
    heads: list[int] | None = Field(default=None, min_length=1)
    """With `cross`: the attention heads of these layers, counted from 1; null: all."""

    @model_validator(mode="after")
    def _choice_is_of_cross_attention(self) -> "PointerGeneratorConfig":
        if self.attention == "own" and (self.layers or self.heads):
            raise ValueError("layers and heads choose from the cross-attention; leave them out with attention own")
        return self

    @property
    def reads_memory(self) -> bool:
        return self.attention == "own"

    def problem(self, decoder_layers: int, num_heads: int) -> str | None:
        if self.attention == "cross" and not decoder_layers:
            return "attention cross copies by a cross-attention that this decoder does not have; use attention own"
        for name, chosen, count in (("layers", self.layers, decoder_layers), ("heads", self.heads, num_heads)):
            if any(not 1 <= one <= count for one in chosen or []):
                return f"{name} {chosen} must be from 1 to {count}"
            if chosen and len(set(chosen)) < len(chosen):
                return f"{name} {chosen} names one twice; name each once"
        return None

    def build(self, embedding: nn.Parameter) -> Head:
        if self.attention == "own":
            return OwnPointerGenerator(embedding)
        layers, heads = (None if chosen is None else tuple(chosen) for chosen in (self.layers, self.heads))
        return PointerGenerator(embedding, AttentionChoice(layers, heads))


class GatedCopyHead(CopyHead):
    """p = p_gen softmax(W h) + (1 - p_gen) Σ_{s: x_s = y} a_s, p_gen = sigmoid(w·h + b)

    The papers' gate also reads the context vector and the decoder's input; in a Transformer, and in the LSTM decoder
    here, h is computed from both.
    """

    def __init__(self, weight: nn.Parameter) -> None:
        super().__init__(weight)
        self.gate = nn.Linear(weight.shape[1], 1)

    def scores(
        self, states: Float[Tensor, "*batch D"], context: HeadContext = NO_CONTEXT
    ) -> Float[Tensor, "*batch columns"]:
        return pointer_generator(self.generated(states), self.copied(states, context), self._gate(states))

    def target_log_probs(
        self, states: Float[Tensor, "N D"], context: HeadContext, targets: Int[Tensor, " N"]
    ) -> Float[Tensor, " N"]:
        assert context.src is not None
        gate = self._gate(states)[:, 0]
        generated, _ = self.generated_target(states, targets)
        copied = self.copied_target(self.copy_scores(states, context), context.src, targets)
        return torch.logaddexp(F.logsigmoid(gate) + generated, F.logsigmoid(-gate) + copied)

    def copy_log_probs(self, states: Tensor, context: HeadContext) -> Float[Tensor, "*batch S"]:
        return F.logsigmoid(-self._gate(states)) + self.copy_scores(states, context)

    def _gate(self, states: Tensor) -> Tensor:
        gate: Tensor = self.gate(states)
        return gate.to(torch.promote_types(gate.dtype, torch.float32))


class PointerGenerator(GatedCopyHead):
    """a is the cross-attention: the mean over the chosen layers and heads."""

    needs_attention = True

    def __init__(self, weight: nn.Parameter, chosen: AttentionChoice) -> None:
        super().__init__(weight)
        self.chosen = chosen

    def copy_scores(self, states: Tensor, context: HeadContext) -> Float[Tensor, "*batch S"]:
        assert context.attention is not None
        return context.attention.clamp_min(torch.finfo(context.attention.dtype).tiny).log()


class OwnPointerGenerator(GatedCopyHead):
    """a = softmax((W_q h)·(W_k m) / sqrt(d_model)), m the encoder's last states: an attention of the head's own."""

    needs_memory = True

    def __init__(self, weight: nn.Parameter) -> None:
        super().__init__(weight)
        d_model = weight.shape[1]
        self.query, self.key = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model, bias=False)

    def keys(self, memory: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
        keys: Tensor = self.key(memory)
        return keys

    def point(self, states: Float[Tensor, "B T D"], keys: Float[Tensor, "B S D"]) -> Float[Tensor, "B T S"]:
        scores: Tensor = self.query(states) @ keys.transpose(1, 2)
        return scores / math.sqrt(keys.shape[-1])

    def copy_scores(self, states: Tensor, context: HeadContext) -> Float[Tensor, "*batch S"]:
        assert context.pointed is not None
        assert context.src is not None
        return context.pointed.masked_fill(context.src == SPECIAL.pad, -torch.inf).log_softmax(dim=-1)

"""CopyNet (Gu et al. 2016): generating and copying compete in one softmax."""

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from qkv.functional.copying.mixture import add_copies
from qkv.models.heads.base import NO_CONTEXT, HeadContext, heads
from qkv.models.heads.copying import CopyHead, CopyHeadConfig
from qkv.text.special import SPECIAL


@heads.register
class CopyNetConfig(CopyHeadConfig):
    """One softmax over the vocabulary and the source positions; equal tokens are summed (Gu et al. 2016)."""

    kind: Literal["copynet"] = "copynet"

    @property
    def reads_memory(self) -> bool:
        return True

    def build(self, embedding: nn.Parameter) -> "CopyNet":
        return CopyNet(embedding)


class CopyNet(CopyHead):
    """p(y) ∝ exp(w_y·h) + Σ_{s: x_s = y} exp(tanh(W_c m_s)·h), with m the encoder's last states"""

    needs_memory = True

    def __init__(self, weight: nn.Parameter) -> None:
        super().__init__(weight)
        self.key = nn.Linear(weight.shape[1], weight.shape[1], bias=False)

    def keys(self, memory: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
        return torch.tanh(self.key(memory))

    def point(self, states: Float[Tensor, "B T D"], keys: Float[Tensor, "B S D"]) -> Float[Tensor, "B T S"]:
        return states @ keys.transpose(1, 2)

    def copy_scores(self, states: Tensor, context: HeadContext) -> Float[Tensor, "*batch S"]:
        assert context.pointed is not None
        return context.pointed

    def scores(
        self, states: Float[Tensor, "*batch D"], context: HeadContext = NO_CONTEXT
    ) -> Float[Tensor, "*batch columns"]:
        return add_copies(self.generated(states), self.copied(states, context))

    def target_log_probs(
        self, states: Float[Tensor, "N D"], context: HeadContext, targets: Int[Tensor, " N"]
    ) -> Float[Tensor, " N"]:
        assert context.src is not None
        scores = self.copy_scores(states, context)
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        generated, all_generated = self.generated_target(states, targets)
        all_copied = scores.masked_fill(context.src == SPECIAL.pad, -torch.inf).logsumexp(dim=-1)
        copied = self.copied_target(scores, context.src, targets)
        return torch.logaddexp(generated + all_generated, copied) - torch.logaddexp(all_generated, all_copied)

    def copy_log_probs(self, states: Tensor, context: HeadContext) -> Float[Tensor, "*batch S"]:
        return self.copy_scores(states, context) - self.scores(states, context).logsumexp(dim=-1, keepdim=True)

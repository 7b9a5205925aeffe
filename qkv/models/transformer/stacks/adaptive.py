"""Adaptive computation time in the Universal Transformer: each position chooses its own depth."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from qkv.core.devices import surely_all
from qkv.layers.attention.context import AttentionContext
from qkv.layers.positions import Positions
from qkv.models.transformer.channels import Halting, auxiliary_losses, haltings
from qkv.models.transformer.stacks.base import Layers, StackConfig, stacks
from qkv.models.transformer.stacks.universal import Universal


@stacks.register
class AdaptiveConfig(StackConfig):
    """The Universal Transformer with a depth for each position; the number of layers is the most steps it may take."""

    kind: Literal["adaptive"] = "adaptive"
    ponder: float = Field(default=0.01, ge=0)
    """Weight of the mean number of steps in the loss, for encoder and decoder each; more: positions halt earlier."""
    epsilon: float = Field(default=0.01, gt=0, lt=1)
    """A position halts when its halting probabilities sum to more than 1 - epsilon."""
    start_bias: float = 1.0
    """Bias of the halting unit at the start; greater: a fresh model halts earlier."""

    @property
    def shared(self) -> bool:
        return True

    @property
    def exposes(self) -> bool:
        # The states after a step are not the result: that is a mean of them, another one for each position.
        return False

    def build(self, num_layers: int, d_model: int, positions: Positions) -> "Adaptive":
        return Adaptive(num_layers, d_model, positions, self.ponder, self.epsilon, self.start_bias)


class Adaptive(Universal):
    """p_t = sigmoid(w h_t + b), result sum_t weight_t h_t with the weights of `functional.halting.halting_weights`.

    A position that has halted keeps its state, and the others keep attending to it. The cost of a sentence is
    `ponder` times the mean of N + R over its real positions; only R has a gradient.
    """

    ends_early = True
    calls_layers = False

    def __init__(
        self,
        num_layers: int,
        d_model: int,
        positions: Positions,
        ponder: float = 0.01,
        epsilon: float = 0.01,
        start_bias: float = 1.0,
    ) -> None:
        super().__init__(num_layers, d_model, positions)
        self.ponder = ponder
        self.epsilon = epsilon
        self.halt = nn.Linear(d_model, 1)
        nn.init.xavier_uniform_(self.halt.weight)
        nn.init.constant_(self.halt.bias, start_bias)

    def forward(self, x: Tensor, layers: Layers, context: AttentionContext) -> Tensor:
        real = context.q_keep if context.q_keep is not None else context.keep
        if real is None:
            real = torch.ones(x.shape[:-1], dtype=torch.bool, device=x.device)
        walk = self._walk(x, real, lambda number, h: layers(number, self.marked(h, number, context)))
        # What comes later may go deeper than these positions, and attends to them at every depth.
        for number in range(walk.taken, self.num_layers):
            layers.remember(number, self.marked(walk.state, number, context))
        layers.end_at(walk.steps - 1)
        cost = (walk.steps + walk.remainder).sum(dim=-1) / real.sum(dim=-1).clamp(min=1)
        auxiliary_losses.say(self.ponder * cost)
        haltings.say(Halting(walk.steps, walk.remainder.detach()))
        return walk.result

    def _walk(self, x: Tensor, running: Tensor, after: Callable[[int, Tensor], Tensor]) -> "_Walk":
        """Steps until no position is running; `running` says which count at all."""
        walk = _Walk.start(x, running)
        for number in range(self.num_layers):
            state = torch.where(walk.running[..., None], after(number, walk.state), walk.state)
            probability = torch.sigmoid(self.halt(state).squeeze(-1))
            enough = walk.spent + probability > 1 - self.epsilon
            walk.advance(state, probability, enough if number + 1 < self.num_layers else torch.ones_like(enough))
            if surely_all(~walk.running):
                break
        return walk


@dataclass
class _Walk:
    """The running state of all positions; shapes [...], and [..., D] for states and result."""

    state: Tensor
    result: Tensor
    spent: Tensor
    """The sum of the halting probabilities so far."""
    remainder: Tensor
    steps: Tensor
    running: Tensor
    taken: int = 0
    """The largest number of steps of any position."""

    @classmethod
    def start(cls, x: Tensor, running: Tensor) -> "_Walk":
        nothing = x.new_zeros(x.shape[:-1])
        return cls(x, torch.zeros_like(x), nothing, nothing, torch.zeros_like(running, dtype=torch.int64), running)

    def advance(self, state: Tensor, probability: Tensor, enough: Tensor) -> None:
        """One more step; a position with `enough` spends its remainder and halts."""
        left = 1 - self.spent
        weight = torch.where(enough, left, probability) * self.running
        self.result = self.result + weight[..., None] * state
        self.remainder = torch.where(self.running & enough, left, self.remainder)
        self.spent = self.spent + weight
        self.steps = self.steps + self.running
        self.running = self.running & ~enough
        self.state = state
        self.taken += 1

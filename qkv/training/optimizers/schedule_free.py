"""Schedule-Free AdamW: the average of the weights takes the place of a falling learning rate."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from qkv.training.optimizers.base import OptimizerConfig, gradient, optimizers


@optimizers.register
class ScheduleFreeConfig(OptimizerConfig):
    """Schedule-Free AdamW (Defazio et al. 2024). Use it with `schedule: {kind: constant, warmup: ...}`.

    The model can be used at any point of the run, so its length need not be known in advance.
    """

    averages: ClassVar[bool] = True
    shards: ClassVar[bool] = True

    kind: Literal["schedule_free"] = "schedule_free"
    beta1: float = Field(default=0.9, gt=0, lt=1)
    """Interpolation towards the average at which the gradient is taken; 0.9 to 0.98."""
    beta2: float = Field(default=0.98, ge=0, lt=1)
    """Decay of the mean squared gradient."""
    eps: float = Field(default=1e-9, gt=0)
    """Added to the root of the mean squared gradient."""

    def build(self, model: nn.Module) -> "ScheduleFreeAdamW":
        named = model.named_parameters()
        return ScheduleFreeAdamW(named, (self.beta1, self.beta2), self.eps, self.weight_decay)


class ScheduleFreeAdamW:
    r"""Three sequences of weights: z moves, x averages it, y between them is where the gradient is taken.

    .. math::
        z &\leftarrow z - \gamma \, g(y) / (\sqrt{\hat v} + \epsilon) \\
        x &\leftarrow (1 - c)\, x + c\, z, \quad c = \gamma_{max}^2 / \sum \gamma_{max}^2 \\
        y &\leftarrow (1 - \beta_1)\, z + \beta_1\, x

    The model holds y while it is trained and x inside `averaged`.
    """

    def __init__(
        self,
        named_parameters: Iterable[tuple[str, nn.Parameter]],
        betas: tuple[float, float] = (0.9, 0.98),
        eps: float = 1e-9,
        weight_decay: float = 0.0,
    ) -> None:
        self.betas, self.eps, self.weight_decay = betas, eps, weight_decay
        named = list(named_parameters)
        self.names = [name for name, _ in named]
        self.parameters: list[nn.Parameter] = [parameter for _, parameter in named]
        self.moving = [parameter.detach().clone() for parameter in self.parameters]
        """z"""
        self.squares = [torch.zeros_like(parameter) for parameter in self.parameters]
        self.scalars = torch.zeros(3, dtype=torch.float64)
        """Updates done, the highest rate so far, the sum of its squares."""

    @torch.no_grad()
    def step(self, rate: float) -> None:
        done, highest, total = self.scalars.tolist()
        done, highest = done + 1, max(highest, rate)
        total += highest**2
        self.scalars.copy_(torch.tensor([done, highest, total], dtype=torch.float64))
        share, (beta1, beta2) = highest**2 / total, self.betas
        weights: list[Tensor] = list(self.parameters)
        gradients = [gradient(name, weight) for name, weight in zip(self.names, self.parameters, strict=True)]
        torch._foreach_mul_(self.squares, beta2)
        torch._foreach_addcmul_(self.squares, gradients, gradients, value=1 - beta2)
        root = torch._foreach_sqrt(torch._foreach_div(self.squares, 1 - beta2**done))
        torch._foreach_add_(root, self.eps)
        directions = torch._foreach_div(gradients, list(root))
        if self.weight_decay:
            matrices = [i for i, weight in enumerate(weights) if weight.dim() > 1]
            decayed = [directions[i] for i in matrices]
            torch._foreach_add_(decayed, [weights[i] for i in matrices], alpha=self.weight_decay)
        # y from the old z and x without storing x: lerp adds the share of the old z, the rest is the step.
        torch._foreach_lerp_(weights, self.moving, share)
        torch._foreach_add_(weights, list(directions), alpha=rate * (beta1 * (1 - share) - 1))
        torch._foreach_add_(self.moving, list(directions), alpha=-rate)

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """x = z + (y - z) / beta1 in place of y."""
        own = [parameter.detach().clone() for parameter in self.parameters]
        with torch.no_grad():
            for parameter, z in zip(self.parameters, self.moving, strict=True):
                parameter.sub_(z).div_(self.betas[0]).add_(z)
        try:
            yield
        finally:
            with torch.no_grad():
                for parameter, weight in zip(self.parameters, own, strict=True):
                    parameter.copy_(weight)

    def tensors(self) -> dict[str, Tensor]:
        moments = {"moving": self.moving, "square": self.squares}
        named = {
            f"{moment}/{name}": tensor
            for moment, tensors in moments.items()
            for name, tensor in zip(self.names, tensors, strict=True)
        }
        return named | {"scalars": self.scalars}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        for name, own in self.tensors().items():
            own.copy_(tensors[name])

"""Label smoothing: target distributions, and the cross-entropy with them.

Every published variant is a distribution q(v | y) = confidence · δ(v, y) + background(v), so the loss
L = -Σ_v q(v | y) log p(v) is written once. Each variant has its own name, because "0.1" means different
things in different systems.
"""

from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Smoothing:
    """q(v | y) = confidence · δ(v, y) + background(v); the loss is CE(q, p) - entropy_penalty · H(p)."""

    confidence: float
    background: Float[Tensor, " V"]
    entropy_penalty: float = 0.0
    _moved: dict[tuple[torch.device, torch.dtype], Tensor] = field(default_factory=dict, init=False, repr=False)

    def background_on(self, device: torch.device, dtype: torch.dtype) -> Float[Tensor, " V"]:
        """The background there, moved once."""
        if (device, dtype) not in self._moved:
            self._moved[device, dtype] = self.background.to(device, dtype)
        return self._moved[device, dtype]

    @property
    def is_plain(self) -> bool:
        """Whether q = δ: there is no smoothing at all."""
        return self.confidence == 1 and self.entropy_penalty == 0 and not self.background.any()


def no_smoothing(vocab_size: int) -> Smoothing:
    """q = δ: plain cross-entropy."""
    return Smoothing(1.0, _even(vocab_size, 0.0))


def uniform(vocab_size: int, epsilon: float) -> Smoothing:
    """q = (1 - ε) δ + ε / V (Szegedy et al. 2016; also PyTorch's)."""
    return Smoothing(1 - epsilon, _even(vocab_size, epsilon / vocab_size))


def others(vocab_size: int, epsilon: float) -> Smoothing:
    """1 - ε on the gold token, ε / (V - 1) on each other (tensor2tensor, fairseq)."""
    share = epsilon / (vocab_size - 1)
    return Smoothing(1 - epsilon - share, _even(vocab_size, share))


def others_but_pad(vocab_size: int, epsilon: float, pad: int) -> Smoothing:
    """1 - ε on the gold token, ε / (V - 2) on each other but the pad (the Annotated Transformer, JoeyNMT)."""
    share = epsilon / (vocab_size - 2)
    background = _even(vocab_size, share)
    background[pad] = 0.0
    return Smoothing(1 - epsilon - share, background)


def unigram(frequencies: Float[Tensor, " V"] | Int[Tensor, " V"], epsilon: float) -> Smoothing:
    """q = (1 - ε) δ + ε f(v) / Σ f: the background is the unigram distribution."""
    wide = frequencies.double()
    return Smoothing(1 - epsilon, epsilon * wide / wide.sum())


def confidence_penalty(vocab_size: int, beta: float) -> Smoothing:
    """L = -log p(y) - β H(p): output distributions of low entropy are penalised (Pereyra et al. 2017)."""
    return Smoothing(1.0, _even(vocab_size, 0.0), entropy_penalty=beta)


def restrict(smoothing: Smoothing, allowed: Bool[Tensor, " V"]) -> Smoothing:
    """Move the background mass to the allowed tokens, so that a banned token (log p = -inf) adds no loss."""
    kept = smoothing.background * allowed
    if not kept.any():
        return replace(smoothing, background=kept)
    return replace(smoothing, background=kept * (smoothing.background.sum() / kept.sum()))


def _even(vocab_size: int, share: float) -> Float[Tensor, " V"]:
    """In float64, so that confidence and background add up to 1."""
    return torch.full((vocab_size,), share, dtype=torch.float64)


def smoothed_cross_entropy(
    log_probs: Float[Tensor, "N V"],
    targets: Int[Tensor, " N"],
    smoothing: Smoothing,
    weights: Float[Tensor, " N"] | None = None,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Σ_n w_n (-Σ_v q(v | y_n) log p_n(v) - β H(p_n)), and Σ_n w_n (-log p_n(y_n)) for the perplexity.

    The second value is for reporting: no gradient flows through it.
    """
    nll = -log_probs.gather(1, targets[:, None]).squeeze(1)
    finite = log_probs.masked_fill(log_probs == -torch.inf, 0.0)
    background = smoothing.background_on(log_probs.device, log_probs.dtype)
    entropy = -(log_probs.exp() * finite).sum(dim=1)
    loss = smoothing.confidence * nll - finite @ background - smoothing.entropy_penalty * entropy
    if weights is not None:
        loss, nll = loss * weights, nll * weights
    return loss.sum(), nll.sum().detach()


@dataclass(frozen=True)
class AgreementFactors:
    """The four factors of the loss."""

    first: float
    second: float
    forward: float
    backward: float
    fixed: bool = False
    """Whether p₁ is detached in the divergences, so that they send no gradient into the first pass."""


def r_drop(alpha: float) -> AgreementFactors:
    """½ [CE(q, p₁) + CE(q, p₂) + α · ½ (KL(p₁ ‖ p₂) + KL(p₂ ‖ p₁))] (Liang et al. 2021).

    Half of the published loss, so that two equal passes give the loss of one; α has its published meaning.
    """
    return AgreementFactors(first=0.5, second=0.5, forward=alpha / 4, backward=alpha / 4)


def sim_cut(alpha: float, fixed: bool = False) -> AgreementFactors:
    """CE(q, p₁) + α · KL(p₁ ‖ p₂), p₂ from an input with cut-off tokens (Gao et al. 2022).

    As published the gradient flows through both predictions; `fixed` makes p₁ the teacher of p₂.
    """
    return AgreementFactors(first=1.0, second=0.0, forward=alpha, backward=0.0, fixed=fixed)


def kl_divergence(log_p: Float[Tensor, "N V"], log_q: Float[Tensor, "N V"]) -> Float[Tensor, " N"]:
    """KL(p ‖ q) = Σ_v p_v (log p_v - log q_v); a token that p rules out counts 0."""
    ruled_out = log_p == -torch.inf
    return (log_p.exp() * (log_p - log_q).masked_fill(ruled_out, 0.0)).sum(dim=1)


def consistent_cross_entropy(
    log_probs: Float[Tensor, "N 2 V"],
    targets: Int[Tensor, " N"],
    smoothing: Smoothing,
    agreement: AgreementFactors,
    weights: Float[Tensor, " N"] | None = None,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Σ_n w_n L_n, and Σ_n w_n (-log p₁(y_n)) for the perplexity, through which no gradient flows."""
    one, two = log_probs.unbind(dim=1)
    first, nll = smoothed_cross_entropy(one, targets, smoothing, weights)
    second, _ = smoothed_cross_entropy(two, targets, smoothing, weights)
    given = one.detach() if agreement.fixed else one
    apart = agreement.forward * kl_divergence(given, two) + agreement.backward * kl_divergence(two, given)
    if weights is not None:
        apart = apart * weights
    return agreement.first * first + agreement.second * second + apart.sum(), nll

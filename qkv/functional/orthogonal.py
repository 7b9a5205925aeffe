"""The nearest orthogonal matrix, approximately: the update of Muon."""

import torch
from jaxtyping import Float
from torch import Tensor

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Coefficients of Jordan et al. (2024): they raise small singular values quickly and end between 0.7 and 1.2."""


def newton_schulz(matrix: Float[Tensor, "*stack M N"], steps: int = 5) -> Float[Tensor, "*stack M N"]:
    r"""U V^T of the singular value decomposition U S V^T, approximately: every singular value becomes about 1.

    X_0 = G / ||G||_F, then X <- a X + (b X X^T + c (X X^T)^2) X, which maps each singular value s to
    a s + b s^3 + c s^5. Uses only matrix products, so that stacks of matrices are fast. A zero matrix stays zero.
    """
    a, b, c = COEFFICIENTS
    tall = matrix.shape[-2] > matrix.shape[-1]
    x: Tensor = (matrix.mT if tall else matrix).reshape(-1, *sorted(matrix.shape[-2:]))
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp_min(torch.finfo(x.dtype).tiny)
    for _ in range(steps):
        gram = torch.bmm(x, x.mT)
        # A product and a sum in one call: in bfloat16 half of the time would go into the sums.
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.mT if tall else x).reshape(matrix.shape).to(matrix.dtype)

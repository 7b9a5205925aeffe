"""Newton-Schulz against the singular value decomposition, and against the polynomial on each singular value."""

import pytest
import torch

from qkv.functional.orthogonal import COEFFICIENTS, newton_schulz


@pytest.mark.parametrize("shape", [(5, 5), (4, 9), (9, 4), (3, 6, 6), (2, 8, 3), (1, 7)])
def test_is_the_polynomial_of_the_singular_values(shape: tuple[int, ...]) -> None:
    matrix = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    u, s, v = torch.linalg.svd(matrix, full_matrices=False)
    s = s / s.square().sum(-1, keepdim=True).sqrt()
    a, b, c = COEFFICIENTS
    for _ in range(5):
        s = a * s + b * s**3 + c * s**5
    torch.testing.assert_close(newton_schulz(matrix), u * s[..., None, :] @ v)


def test_singular_values_come_near_to_one() -> None:
    matrix = torch.randn(20, 32, 64, generator=torch.Generator().manual_seed(2))
    values = torch.linalg.svdvals(newton_schulz(matrix))
    assert float(values.min()) > 0.6
    assert float(values.max()) < 1.3


def test_scale_of_the_matrix_does_not_matter() -> None:
    matrix = torch.randn(6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    torch.testing.assert_close(newton_schulz(matrix * 1e-6), newton_schulz(matrix))


def test_zeros_stay_zeros() -> None:
    assert not newton_schulz(torch.zeros(2, 3, 4)).any()


def test_bfloat16_still_brings_singular_values_near_to_one() -> None:
    stack = torch.randn(8, 32, 64, generator=torch.Generator().manual_seed(5))
    with torch.autocast("cpu", torch.bfloat16):
        directions = newton_schulz(stack)
    values = torch.linalg.svdvals(directions)
    assert directions.dtype == torch.float32
    assert float(values.min()) > 0.6
    assert float(values.max()) < 1.3

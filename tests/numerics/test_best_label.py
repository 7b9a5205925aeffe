"""The best label and its log p equal those of the whole softmax."""

import pytest
import torch

from qkv.kernels.labels import best_label


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_equals_the_softmax(dtype: torch.dtype) -> None:
    logits = 30 * torch.randn(7, 50, generator=torch.Generator().manual_seed(1), dtype=dtype)
    logits[:, [0, 3]] = -torch.inf
    log_probs = logits.log_softmax(dim=1)
    wanted = log_probs.max(dim=1)
    found = best_label(logits.clone(), ask=4)
    assert torch.equal(found.labels, wanted.indices)
    torch.testing.assert_close(found.log_probs, wanted.values)
    torch.testing.assert_close(found.asked, log_probs[:, 4])
    assert best_label(logits).asked is None


def test_of_equals_the_lowest_and_huge_logits_do_not_overflow() -> None:
    found = best_label(torch.tensor([[1.0, 3e38, 3e38], [-3e38, -3e38, -torch.inf], [5.0, 5.0, 5.0]]))
    assert found.labels.tolist() == [1, 0, 0]
    torch.testing.assert_close(found.log_probs, -torch.tensor([2.0, 2.0, 3.0]).log())


def test_what_is_no_number_stays_none() -> None:
    assert best_label(torch.tensor([[1.0, torch.nan]])).log_probs.isnan().all()
    assert best_label(torch.tensor([[1.0, torch.inf]])).log_probs.isnan().all()

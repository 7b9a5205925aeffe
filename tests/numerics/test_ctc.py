"""CTC against the definition: all paths are written down."""

import math
from itertools import product

import pytest
import torch
from torch import Tensor

from qkv.functional.parallel.ctc import best_path, collapse, ctc_log_prob, fewest_positions
from qkv.kernels.ctc import ctc_alignment, ctc_fits, ctc_nll
from qkv.kernels.labels import label_log_probs, label_logits

A, B, BLANK = 0, 1, 2


def log_probs(positions: int, vocab: int = 3, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(positions, vocab, dtype=torch.float64, generator=generator).log_softmax(dim=-1)


def enumerated(table: Tensor, blank: int) -> dict[tuple[int, ...], list[tuple[float, tuple[int, ...]]]]:
    """Every output with (log p, path) of all its paths."""
    found: dict[tuple[int, ...], list[tuple[float, tuple[int, ...]]]] = {}
    for path in product(range(table.shape[1]), repeat=len(table)):
        score = math.fsum(float(table[at, token]) for at, token in enumerate(path))
        found.setdefault(tuple(collapse(path, blank)), []).append((score, path))
    return found


def picked(table: Tensor, target: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The arguments of the kernels for one row."""
    columns = table[:, [BLANK, *target]][None]
    ids = torch.tensor([list(target)], dtype=torch.long).reshape(1, -1)
    return columns, ids, torch.tensor([len(target)]), torch.tensor([len(table)])


@pytest.mark.parametrize(
    ("path", "output"),
    [
        ([A, BLANK, A], [A, A]),
        ([A, A], [A]),
        ([BLANK], []),
        ([], []),
        ([BLANK, A, A, BLANK, BLANK, A, B, B, BLANK], [A, A, B]),
    ],
)
def test_collapse(path: list[int], output: list[int]) -> None:
    assert collapse(path, BLANK) == output


@pytest.mark.parametrize("positions", [1, 2, 3, 4, 5])
def test_the_recursions_are_the_sum_and_the_best_of_all_paths(positions: int) -> None:
    table = log_probs(positions, seed=positions)
    paths = enumerated(table, BLANK)
    total = 0.0
    for target, ways in paths.items():
        expected = torch.tensor([score for score, _ in ways]).logsumexp(dim=0)
        total += float(expected.exp())
        best = max(ways)[1]
        assert float(ctc_log_prob(table, target, BLANK)) == pytest.approx(float(expected))
        assert best_path(table, target, BLANK) == list(best)
        columns, ids, lengths, sizes = picked(table, target)
        assert float(ctc_nll(columns, ids, lengths, sizes)) == pytest.approx(-float(expected))
        assert ctc_alignment(columns, ids, lengths, sizes, BLANK)[0].tolist() == list(best)
    assert total == pytest.approx(1.0)


def test_a_target_fits_exactly_if_some_path_collapses_to_it() -> None:
    for positions in range(1, 6):
        possible = enumerated(log_probs(positions), BLANK)
        for length in range(5):
            for target in product((A, B), repeat=length):
                fits = fewest_positions(target) <= positions
                assert fits == (target in possible)
                columns, ids, lengths, sizes = picked(log_probs(positions), target)
                assert bool(ctc_fits(ids, lengths, sizes)) == fits
                assert bool(ctc_nll(columns, ids, lengths, sizes).isfinite()) == fits
                assert bool(ctc_log_prob(log_probs(positions), target, BLANK).isfinite()) == fits


def test_no_path_fits_and_no_gradient_flows() -> None:
    columns, ids, lengths, sizes = picked(log_probs(3), (A, A, A))
    columns.requires_grad_()
    torch.where(torch.tensor([False]), ctc_nll(columns, ids, lengths, sizes), 0.0).sum().backward()
    assert columns.grad is not None
    assert not columns.grad.any()


def rows() -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """hidden [B, T, D], weight, targets with padding, their lengths, the paths' lengths, a background."""
    torch.manual_seed(3)
    hidden = torch.randn(4, 7, 5, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(9, 5, dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([[1, 1, 2], [3, 4, 0], [5, 0, 0], [0, 0, 0]])
    return hidden, weight, targets, torch.tensor([3, 2, 1, 0]), torch.tensor([7, 5, 6, 2]), torch.rand(9).double()


def test_a_batch_equals_the_definition_with_its_gradients() -> None:
    """Through the projection: neither what stands behind a path nor behind a target counts."""
    hidden, weight, targets, lengths, sizes, background = rows()
    table = (hidden @ weight.t()).log_softmax(dim=-1)
    plain = [-ctc_log_prob(table[b, : sizes[b]], targets[b, : lengths[b]].tolist(), 8) for b in range(4)]
    slow = sum((b + 1) * nll for b, nll in enumerate(plain)) + 0.3 * (table @ background).sum()
    columns = torch.cat([torch.full((4, 1), 8), targets], dim=1).repeat_interleave(7, dim=0)
    found, smooth = label_log_probs(hidden.flatten(0, 1), weight, columns, background)
    nll = ctc_nll(found.unflatten(0, (4, 7)), targets, lengths, sizes)
    fast = nll @ torch.arange(1.0, 5.0, dtype=torch.float64) + 0.3 * smooth.sum()
    torch.testing.assert_close(fast, slow)
    for ours, theirs in zip(*(torch.autograd.grad(loss, (hidden, weight)) for loss in (fast, slow)), strict=True):
        torch.testing.assert_close(ours, theirs)
    path = ctc_alignment(found.detach().unflatten(0, (4, 7)), targets, lengths, sizes, 8)
    for b in range(4):
        wanted = best_path(table[b, : sizes[b]].detach(), targets[b, : lengths[b]].tolist(), 8)
        assert path[b].tolist() == wanted + [8] * (7 - int(sizes[b]))


def test_label_log_probs_over_several_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qkv.kernels.labels.CHUNK", 4)
    hidden, weight, *_, background = rows()
    flat, labels = hidden.flatten(0, 1), torch.randint(9, (28, 3))
    table = (flat @ weight.t()).log_softmax(dim=-1)
    upstream, other = torch.randn(28, 3).double(), torch.randn(28).double()
    found, smooth = label_log_probs(flat, weight, labels, background)
    torch.testing.assert_close(found, table.gather(1, labels))
    torch.testing.assert_close(smooth, table @ background)
    fast = (found * upstream).sum() + smooth @ other
    slow = (table.gather(1, labels) * upstream).sum() + (table @ background) @ other
    for ours, theirs in zip(*(torch.autograd.grad(loss, (hidden, weight)) for loss in (fast, slow)), strict=True):
        torch.testing.assert_close(ours, theirs)
    logits, highest = label_logits(flat, weight, labels)
    torch.testing.assert_close(logits, (flat @ weight.t()).gather(1, labels).detach())
    torch.testing.assert_close(highest, (flat @ weight.t()).amax(dim=1).detach())

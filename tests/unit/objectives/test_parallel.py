"""What non-autoregressive models learn: which positions carry a loss, what glancing shows, what is left out."""

from typing import Any

import pytest
import torch
from torch import Tensor

from qkv.config.load import validate
from qkv.core.errors import QkvError
from qkv.data.batch import Batch, collate, padded
from qkv.models.parallel.base import EncodedSource
from qkv.models.parallel.length_predictor import LARGEST, SMALLEST, length_classes
from qkv.objectives.mask_predict import how_many
from qkv.objectives.parts import GlancingConfig
from qkv.text import SPECIAL
from qkv.training.recipe import Recipe
from tests.support.parallel import decode, know, objective_of, parallel_model
from tests.support.small import batch_of
from tests.support.tiny import plain, write_data

LENGTHS = [(3, 4), (6, 5), (2, 2), (5, 7)]
SHOWS_ALL = {"start": 1.0, "end": 1.0}


def canvases(model: Any) -> list[Tensor]:
    """Every canvas that the model is asked to fill from now on."""
    seen: list[Tensor] = []
    plain_fill = model.fill

    def fill(canvas: Tensor, source: Any) -> Tensor:
        seen.append(canvas)
        decoded: Tensor = plain_fill(canvas, source)
        return decoded

    model.fill = fill
    return seen


def targets_of(batch: Batch) -> list[list[int]]:
    return [[token for token in row if token > SPECIAL.mask] for row in batch.tgt_out.tolist()]


def test_the_ratio_falls_on_a_straight_line() -> None:
    glancing = GlancingConfig(start=0.5, end=0.3, updates=100)
    assert [glancing.ratio_at(update) for update in (1, 51, 101, 500)] == pytest.approx([0.5, 0.4, 0.3, 0.3])


@pytest.mark.parametrize("kind", ["nat", "ctc", "dag"])
def test_no_glance_at_ratio_zero(kind: str) -> None:
    batch = batch_of(LENGTHS)
    shown, plain_loss = (
        objective_of(kind, glancing=glancing).training_loss(parallel_model(kind), batch, 1)
        for glancing in ({"start": 0.0, "end": 0.0}, None)
    )
    assert float(shown.sum.detach()) == float(plain_loss.sum.detach())


def test_nat_shows_a_share_of_what_was_wrong_and_takes_no_loss_there() -> None:
    model, batch = parallel_model("nat", seed=1), batch_of(LENGTHS)
    seen = canvases(model)
    report = objective_of("nat", glancing={"start": 0.5}).training_loss(model, batch, 1)
    first, second = seen
    decoded = model.head.log_probs(parallel_model("nat", seed=1).states(batch.src, batch.src_keep, first))
    revealed = 0
    for row, target in enumerate(targets_of(batch)):
        wrong = sum(guess != token for guess, token in zip(decoded[row].argmax(dim=-1).tolist(), target, strict=False))
        shown = [at for at in range(len(target)) if second[row, at] != SPECIAL.mask]
        assert len(shown) == int(0.5 * wrong + 0.5)
        assert all(second[row, at] == target[at] for at in shown)
        assert (second[row, len(target) :] == SPECIAL.pad).all()
        revealed += len(shown)
    assert revealed > 0
    assert report.weight == sum(target for _, target in LENGTHS) - revealed


def test_a_perfect_first_pass_is_shown_nothing() -> None:
    """Then the loss is the plain one."""
    batch = batch_of([(3, 4)], vocab=15)
    model = parallel_model("nat", share_embeddings="none")
    seen = know(model, torch.tensor(targets_of(batch)))
    objective_of("nat", glancing=SHOWS_ALL).training_loss(model, batch, 1)
    assert len(seen) == 2
    assert torch.equal(*seen)


def test_ctc_shows_tokens_of_the_best_path_to_the_target() -> None:
    model, batch = parallel_model("ctc", seed=2), batch_of([*LENGTHS, (1, 9)])
    seen = canvases(model)
    report = objective_of("ctc", glancing=SHOWS_ALL).training_loss(model, batch, 1)
    first, second = seen
    assert report.left_out == 1
    assert (first[4] == second[4]).all()  # no path leads to this one
    shown = (second != first)[:4]
    assert shown.any(dim=1).all()
    allowed = [{*target, model.blank} for target in targets_of(batch)]
    for row in range(4):
        assert set(second[row][shown[row]].tolist()) <= allowed[row]


def test_ctc_leaves_out_what_does_not_fit() -> None:
    model, trainer = parallel_model("ctc"), objective_of("ctc")
    both = batch_of([(3, 4), (1, 9)])
    fitting, other = both.split()
    alone, together = (trainer.training_loss(model, batch, 1) for batch in (fitting, both))
    assert (alone.left_out, together.left_out) == (0, 1)
    assert together.weight == alone.weight == 4
    assert together.nll == pytest.approx(float(alone.nll), rel=1e-5)
    model.zero_grad()
    trainer.training_loss(model, other, 1).sum.backward()
    assert not any(bool(p.grad.any()) for p in model.parameters() if p.grad is not None)


def test_smoothing_of_ctc_counts_as_much_as_elsewhere() -> None:
    """|Y| times the mean over positions: a uniform background costs log V a token where the model says uniform."""
    model, batch = parallel_model("ctc"), batch_of([(4, 3)])
    with torch.no_grad():
        model.head.weight.zero_()
    size = len(model.head.weight)
    soft = objective_of("ctc", smoothing={"kind": "uniform", "amount": 0.25}).training_loss(model, batch, 1)
    expected = 0.75 * soft.nll + 0.25 * 3 * torch.log(torch.tensor(float(size)))
    assert float(soft.sum.detach()) == pytest.approx(float(expected), rel=1e-5)


def test_mask_predict_masks_one_to_all_tokens_and_only_they_count() -> None:
    torch.manual_seed(0)
    model, batch = parallel_model("mask_predict"), batch_of(LENGTHS)
    seen = canvases(model)
    for _ in range(5):
        report = objective_of("mask_predict").training_loss(model, batch, 1)
        masked = (seen[-1] == SPECIAL.mask).sum(dim=1).tolist()
        assert report.weight == sum(masked)
        assert all(1 <= count <= length for count, (_, length) in zip(masked, LENGTHS, strict=True))
        for row, target in enumerate(targets_of(batch)):
            canvas = seen[-1][row, : len(target)].tolist()
            assert all(token in (SPECIAL.mask, right) for token, right in zip(canvas, target, strict=True))
    drawn = how_many(torch.full((20_000,), 7))
    assert drawn.unique().tolist() == list(range(1, 8))
    assert float(drawn.float().mean()) == pytest.approx(4.0, abs=0.06)


def test_the_tail_of_a_canvas_has_no_gradient_at_weight_zero() -> None:
    """A target of 2 on a canvas of 4 + 2: END counts once, and twice more at another weight."""
    batch = batch_of([(3, 2)])
    gradients = {}
    for tail in (0.0, 0.5):
        decoder = {"kind": "canvas", "factor": 1.0, "extra": 2, "tail": tail}
        model = parallel_model(decoder)
        kept: list[Tensor] = []
        plain_fill = model.fill

        def fill(canvas: Tensor, source: Any, plain_fill: Any = plain_fill, kept: list[Tensor] = kept) -> Tensor:
            kept.append(plain_fill(canvas, source))
            kept[-1].retain_grad()
            return kept[-1]

        model.fill = fill
        report = objective_of(decoder).training_loss(model, batch, 1)
        report.sum.backward()
        assert kept[0].grad is not None
        gradients[tail] = kept[0].grad[0].abs().sum(dim=-1) > 0
        assert report.weight == 3 + 3 * tail
    assert gradients[0.0].tolist() == [True] * 3 + [False] * 3
    assert gradients[0.5].all()


def test_a_target_longer_than_the_canvas_is_cut_and_counted() -> None:
    decoder = {"kind": "canvas", "factor": 1.0, "extra": 0}
    report = objective_of(decoder).training_loss(parallel_model(decoder), batch_of([(3, 9), (3, 4), (3, 3)]), 1)
    assert (report.left_out, report.weight) == (1, 4 + 4 + 4)


def test_length_differences_are_clipped_and_counted() -> None:
    classes, clipped = length_classes(torch.tensor([11, 3, 300]), torch.tensor([10, 500, 1]))
    assert classes.tolist() == [-SMALLEST, LARGEST - SMALLEST, 0]
    assert clipped.tolist() == [False, True, True]


def test_an_empty_target_has_no_loss_but_its_length() -> None:
    batch = collate([[7, 8]], [[]], SPECIAL, SPECIAL, [0])
    for kind in ("nat", "mask_predict", "ctc", "canvas", "dag"):
        report = objective_of(kind).training_loss(parallel_model(kind), batch, 1)
        assert bool(report.sum.isfinite()), kind
        assert report.left_out == 0


def test_the_length_predictor_learns_a_rule() -> None:
    """The output has 2 tokens more for every token above 10, so its length depends on what the source says."""
    generator = torch.Generator().manual_seed(1)
    model = parallel_model("nat", encoder_layers=1, decoder_layers=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def draw(count: int) -> tuple[EncodedSource, Tensor, Tensor]:
        lengths = torch.randint(2, 9, (count,), generator=generator).tolist()
        src = [torch.randint(5, 16, (length,), generator=generator).tolist() for length in lengths]
        ids, keep = padded([[*row, SPECIAL.eos] for row in src], SPECIAL.pad)
        right = torch.tensor([len(row) + 2 * sum(token > 10 for token in row) for row in src])
        return model.read(ids, keep), ids, right

    for _ in range(100):
        source, _, right = draw(48)
        classes, _ = length_classes(source.lengths, right)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model.length_predictor(source), classes).backward()
        optimizer.step()
    source, ids, right = draw(200)
    assert ((model.length_predictor.lengths(source, 1)[:, 0] - right).abs() <= 2).float().mean() >= 0.95
    found = decode(model, [row[keep][:-1].tolist() for row, keep in zip(ids, source.keep, strict=True)], max_extra=99)
    lengths = torch.tensor([len(best.tokens) for best, *_ in found])
    assert torch.equal(lengths, model.length_predictor.lengths(source, 1)[:, 0])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"objective": {"glancing": {}}}, "objective.glancing does not go with the decoder autoregressive"),
        ({"model": {"decoder": "canvas"}, "objective": {"glancing": {}}}, "use nat, ctc or dag"),
        ({"model": {"decoder": "nat"}, "objective": {"noise": ["drop"]}}, "objective.noise is for the autoregressive"),
        ({"model": {"decoder": "ctc"}, "objective": {"consistency": "rdrop"}}, "objective.consistency is for"),
        ({"model": {"decoder": "ctc"}, "objective": {"smoothing": "confidence_penalty"}}, "use others or none"),
        ({"model": {"decoder": "dag"}, "objective": {"smoothing": "confidence_penalty"}}, "for the decoder dag; use"),
        ({"model": {"decoder": "ctc", "positions": {"kind": "learned", "max_length": 300}}}, "512 positions"),
    ],
)
def test_a_recipe_whose_parts_do_not_fit_is_refused(tmp_path: Any, changes: dict[str, Any], words: str) -> None:
    recipe = plain(write_data(tmp_path / "data"), tmp_path / "run")
    for group, keys in changes.items():
        recipe[group] = recipe.get(group, {}) | keys
    with pytest.raises(QkvError, match=words):
        validate(Recipe, recipe, "test")

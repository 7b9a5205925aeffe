"""The limit on outputs covers the pairs that it was fitted to, with room, and keeps pace with longer sources."""

import numpy as np
import pytest

from qkv.data import length_limit
from qkv.data.length_limit import LengthLimit, fit_length_limit
from qkv.data.store import LengthArray


def lengths(values: object) -> LengthArray:
    return np.asarray(values, dtype=np.uint32)


def most(limit: LengthLimit, src: LengthArray) -> np.ndarray:
    reached: np.ndarray = (limit.factor * src).astype(int) + limit.extra
    return reached if limit.most is None else np.minimum(reached, limit.most)


def commands() -> tuple[LengthArray, LengthArray]:
    """Sources as short as `do around left thrice and ...`, with targets of up to 49 tokens; END on both sides."""
    phrases = [(1, 1), (2, 2), (3, 3), (3, 8)]
    repeated = [(words + (times > 1), times * actions) for words, actions in phrases for times in (1, 2, 3)]
    both = [(a + 1 + c, b + d) for a, b in repeated for c, d in repeated]
    src, tgt = zip(*((words + 1, actions + 1) for words, actions in [*repeated, *both]), strict=True)
    return lengths(src), lengths(tgt)


def test_targets_that_are_much_longer_than_their_sources_are_covered() -> None:
    src, tgt = commands()
    assert (tgt > 2 * src + 10).mean() > 0.05  # what the old limit cut
    assert (tgt <= most(fit_length_limit(src, tgt), src)).all()


def test_there_is_room_for_targets_longer_than_any_in_training() -> None:
    """Trained on the shorter half of the targets, all of them can be written."""
    src, tgt = commands()
    short = tgt <= 23
    assert (tgt <= most(fit_length_limit(src[short], tgt[short]), src)).all()


def test_longer_sources_than_any_in_training_have_longer_outputs() -> None:
    """Even where the sources say nothing of how the length grows, because all are equally long."""
    for src in ([10] * 50, list(range(8, 13)) * 10):
        limit = fit_length_limit(lengths(src), lengths(src))
        assert most(limit, lengths([400]))[0] >= 800


def test_a_length_that_does_not_depend_on_the_source() -> None:
    draw = np.random.default_rng(0)
    src, tgt = lengths(draw.integers(2, 300, 5000)), lengths(draw.integers(20, 40, 5000))
    reached = most(fit_length_limit(src, tgt), src)
    assert reached.min() >= 40
    assert reached.max() < 300


def test_a_few_wrong_pairs_do_not_decide() -> None:
    draw = np.random.default_rng(0)
    src = lengths(draw.integers(2, 60, 20_000))
    tgt = lengths(np.maximum(2, src * draw.normal(1.1, 0.15, len(src))))
    clean = fit_length_limit(src, tgt)
    tgt[:5] = 4000
    noisy = fit_length_limit(src, tgt)
    assert noisy.factor == pytest.approx(clean.factor, rel=0.1)
    assert noisy.extra <= clean.extra + 5


def test_the_factor_of_ordinary_translation_is_near_the_old_one() -> None:
    draw = np.random.default_rng(1)
    src = lengths(draw.integers(2, 60, 20_000))
    limit = fit_length_limit(src, lengths(np.maximum(2, src * draw.normal(1.0, 0.1, len(src)))))
    assert 2.0 <= limit.factor <= 3.0
    assert 10 <= limit.extra <= 20


def test_counting_in_parts_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    src, tgt = commands()
    whole = fit_length_limit(src, tgt)
    monkeypatch.setattr(length_limit, "AT_ONCE", 7)
    assert fit_length_limit(src, tgt) == whole


def test_an_absolute_bound_stands_above_the_longest_target() -> None:
    assert fit_length_limit(lengths([3]), lengths([5])).most == 4096
    assert fit_length_limit(lengths([3000]), lengths([3000])).most == 12_000

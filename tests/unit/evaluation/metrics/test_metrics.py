"""Scores against brute force and against sacreBLEU's own calls."""

import math
import random
import warnings
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import jiwer
import numpy as np
import pytest
import sacrebleu
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from qkv.core.errors import UsageError
from qkv.evaluation.metrics.base import Metric, References
from qkv.evaluation.metrics.error_rates import edit_distance
from qkv.evaluation.metrics.registry import METRICS, choose_metrics, group_by_source
from qkv.evaluation.metrics.sacre import TokenizedBleu

OUTPUTS = [
    "the cat sat on the mat .",
    "a dog is barking at the moon",
    "two men are riding their bikes",
    "nothing to do with it",
]
ONE = [
    ["the cat sat on the mat ."],
    ["a dog barks at the bright moon"],
    ["two men ride bikes"],
    ["a woman is reading a book in the park"],
]
SEVERAL = [
    ["the cat is on the mat .", "a cat sat on the mat ."],
    ["a dog barks at the bright moon", "the dog is barking at the moon", "a dog is barking"],
    ["two men ride bikes"],
    ["a woman is reading a book in the park", "a book is read"],
]
with warnings.catch_warnings(action="ignore"):
    ALL = choose_metrics(METRICS.names(), "en")
SACRE = {"bleu": BLEU, "chrf": CHRF, "ter": TER}


def streams(references: References) -> list[list[str | None]]:
    most = max(map(len, references))
    return [[answers[i] if i < len(answers) else None for answers in references] for i in range(most)]


def brute_force(a: Sequence[str], b: Sequence[str]) -> int:
    """The recursion that defines the distance."""

    @lru_cache
    def distance(i: int, j: int) -> int:
        if i == 0 or j == 0:
            return i + j
        same = distance(i - 1, j - 1) + (a[i - 1] != b[j - 1])
        return min(same, distance(i - 1, j) + 1, distance(i, j - 1) + 1)

    return distance(len(a), len(b))


def test_edit_distance_is_the_recursion() -> None:
    source = random.Random(0)
    for _ in range(300):
        a, b = (source.choices("abc", k=source.randint(0, 7)) for _ in range(2))
        assert edit_distance(a, b) == edit_distance(b, a) == brute_force(a, b)


@pytest.mark.parametrize(
    ("a", "b", "distance"),
    [("kitten", "sitting", 3), ("", "abc", 3), ("abc", "", 3), ("", "", 0), ("ab", "ba", 2), ("abc", "abc", 0)],
)
def test_edit_distance_of_known_words(a: str, b: str, distance: int) -> None:
    assert edit_distance(a, b) == distance


def test_the_distance_compares_tokens_and_not_letters() -> None:
    assert edit_distance(["AH0", "T"], ["AH1", "T"]) == 1


def test_token_errors_are_counted_to_the_closest_answer() -> None:
    """3 edits to an answer of 4 tokens, 0 to one of 2: 3 / 6; a far answer beside a close one changes nothing."""
    outputs = ["a b c", "x y"]
    assert METRICS["per"].score(outputs, [["a c d e", "q q q q q"], ["z", "x y"]]) == pytest.approx(100 * 3 / 6)
    assert METRICS["per"].score(["a b"], [["a c"]]) == 50
    assert METRICS["per"].score(["a b"], [["a c", "a b d"]]) == pytest.approx(50)


def test_pronunciations_worked_out_by_hand() -> None:
    """tomato: right by its second answer. read: 1 of 3 wrong. colonel: closest is 2 edits of 5. PER 3 / (6 + 3 + 5)."""
    outputs = ["T AH M AA T OW", "R AY D", "K AA L AH N EH L"]
    answers = [["T AH M EY T OW", "T AH M AA T OW"], ["R EH D", "R IY D"], ["K ER N AH L", "K AA L AH L"]]
    assert METRICS["g2p_wer"].score(outputs, answers) == pytest.approx(100 * 2 / 3)
    assert METRICS["exact"].score(outputs, answers) == pytest.approx(100 / 3)
    assert METRICS["per"].score(outputs, answers) == pytest.approx(100 * 3 / 14)
    assert METRICS["per"].counts(outputs, answers).tolist() == [[0, 6], [1, 3], [2, 5]]


def test_errors_are_summed_before_they_are_divided() -> None:
    """One error in 10 tokens and one in 1 token are 2 / 11, not the mean of 10 % and 100 %."""
    long = " ".join("abcdefghij")
    assert METRICS["per"].score([long[:-1] + "x", "y"], [[long], ["z"]]) == pytest.approx(100 * 2 / 11)


def test_token_errors_may_exceed_a_hundred() -> None:
    assert METRICS["per"].score(["a b c"], [["x"]]) == 300
    assert METRICS["per"].score([""], [["x y"]]) == 100
    assert METRICS["per"].score(["   "], [[""]]) == 0


def test_a_word_is_right_if_it_equals_one_of_its_answers() -> None:
    outputs, answers = ["a b", "c", "d", "e"], [["x", "a b"], ["c"], ["D"], ["e.", "f"]]
    assert METRICS["g2p_wer"].score(outputs, answers) == 50
    assert METRICS["exact"].score(outputs, answers) == 50
    assert METRICS["g2p_wer"].score(["c"], [["c"]]) == 0
    assert METRICS["g2p_wer"].score(["a b", "c", "d"], answers[:3]) == pytest.approx(100 / 3)


@pytest.mark.parametrize("name", ["exact", "g2p_wer", "per", "wer", "cer"])
def test_how_a_letter_was_typed_is_no_error(name: str) -> None:
    """One character or a letter with a combining accent; spaces around tokens."""
    right = 100.0 if name == "exact" else 0.0
    assert METRICS[name].score(["cafe\u0301  au lait "], [["caf\u00e9 au lait"]]) == right
    assert METRICS[name].score(["cafe au lait"], [["caf\u00e9 au lait"]]) != right


def test_words_and_characters_in_error_worked_out_by_hand() -> None:
    """the cat sat -> the mat: one substitution, one deletion of 3 words; 4 of 11 characters go and one changes."""
    assert METRICS["wer"].score(["the mat"], [["the cat sat"]]) == pytest.approx(100 * 2 / 3)
    assert METRICS["cer"].score(["the mat"], [["the cat sat"]]) == pytest.approx(100 * 5 / 11)
    assert METRICS["cer"].score(["ab"], [["a b"]]) == pytest.approx(100 / 3)
    assert METRICS["wer"].counts(["a b"], [["a c d", "a b c"]]).tolist() == [[1, 3]]


def test_the_error_rates_are_those_of_jiwer() -> None:
    source = random.Random(3)
    texts = [" ".join(source.choices(["a", "bc", "déf", "ghij"], k=source.randint(0, 9))) for _ in range(400)]
    outputs, references = texts[:200], texts[200:]
    answers = [[reference] for reference in references]
    assert METRICS["wer"].score(outputs, answers) == pytest.approx(100 * jiwer.wer(references, outputs))
    assert METRICS["cer"].score(outputs, answers) == pytest.approx(100 * jiwer.cer(references, outputs))
    assert 50 < METRICS["wer"].score(outputs, answers) < 150


def test_old_names_of_metrics_are_replaced_with_a_warning() -> None:
    for old in ("accuracy", "word_accuracy"):
        with pytest.warns(FutureWarning, match=f"the metric {old} is now called exact"):
            assert [metric.name for metric in choose_metrics([old, "exact"])] == ["exact"]
        with pytest.warns(FutureWarning, match="now called exact"):
            assert METRICS[old].score(["a", "b"], [["a"], ["c"]]) == 50


def test_an_old_name_is_warned_of_once() -> None:
    with warnings.catch_warnings(record=True, action="default") as caught:
        for _ in range(3):
            choose_metrics(["accuracy"])
            METRICS.canonical("accuracy")
    assert len(caught) == 1


def test_the_new_meaning_of_wer_is_said_where_pronunciations_are_measured() -> None:
    with pytest.warns(FutureWarning, match="once called wer, is g2p_wer"):
        choose_metrics(["wer", "per"])
    choose_metrics(["wer", "cer"])
    choose_metrics(["g2p_wer", "per"])


@pytest.mark.parametrize("name", SACRE)
@pytest.mark.parametrize("references", [ONE, SEVERAL], ids=["one", "several"])
def test_score_and_signature_are_sacrebleu(name: str, references: list[list[str]]) -> None:
    """Also where outputs have different numbers of references, which are None to sacreBLEU."""
    scorer = SACRE[name]()
    wanted = scorer.corpus_score(OUTPUTS, streams(references))
    assert METRICS[name].score(OUTPUTS, references) == wanted.score
    assert METRICS[name].signature(references) == str(scorer.get_signature())
    assert ("nrefs:1" if references is ONE else "nrefs:var") in METRICS[name].signature(references)
    assert 10 < wanted.score < 90


@pytest.mark.parametrize("name", SACRE)
def test_the_order_of_the_answers_does_not_matter(name: str) -> None:
    found = METRICS[name].score(OUTPUTS, SEVERAL)
    assert found == METRICS[name].score(OUTPUTS, [answers[::-1] for answers in SEVERAL])
    assert found != METRICS[name].score(OUTPUTS, [answers[:1] for answers in SEVERAL])


def test_bleu_is_of_the_corpus_and_not_a_mean() -> None:
    alone = [METRICS["bleu"].score([output], [answers]) for output, answers in zip(OUTPUTS, ONE, strict=True)]
    assert abs(METRICS["bleu"].score(OUTPUTS, ONE) - sum(alone) / len(alone)) > 1


@pytest.mark.parametrize("metric", ALL, ids=lambda metric: metric.name)
def test_the_right_answers_score_best(metric: Metric) -> None:
    right, wrong = metric.score([answers[-1] for answers in SEVERAL], SEVERAL), metric.score(OUTPUTS, SEVERAL)
    assert right == pytest.approx(100.0 if metric.higher_is_better else 0.0)
    assert metric.better(right, wrong)
    assert not metric.better(wrong, right)
    assert not metric.better(right, right)


@pytest.mark.parametrize("metric", ALL, ids=lambda metric: metric.name)
def test_counts_of_parts_add_up(metric: Metric) -> None:
    """Row by row, whatever outputs stand beside it: what groups, resampling and significance rest on."""
    together = metric.counts(OUTPUTS, SEVERAL)
    alone = [metric.counts([output], [answers])[0] for output, answers in zip(OUTPUTS, SEVERAL, strict=True)]
    assert np.array_equal(together, alone)
    assert metric.from_total(together[:2].sum(axis=0)) == metric.score(OUTPUTS[:2], SEVERAL[:2])


@pytest.mark.parametrize("metric", ALL, ids=lambda metric: metric.name)
def test_empty_texts_have_a_score(metric: Metric) -> None:
    assert math.isfinite(metric.score(["", "a"], [["", "x"], [""]]))
    assert metric.score(["", ""], [["a b c d"], ["e f g h"]]) == (0 if metric.higher_is_better else 100)


@pytest.mark.parametrize("metric", ALL, ids=lambda metric: metric.name)
def test_every_metric_says_what_it_is(metric: Metric) -> None:
    assert metric.title
    assert metric.about
    assert "nrefs:var|" in metric.signature(SEVERAL)
    assert "version:" in metric.signature(SEVERAL)


@pytest.mark.parametrize("name", ["exact", "g2p_wer", "per", "wer", "cer"])
def test_as_many_answers_as_outputs(name: str) -> None:
    with pytest.raises(UsageError, match="there are 2 outputs, but references for 1; give one for each"):
        METRICS[name].score(["a", "b"], [["a"]])


def multi_bleu(outputs: Sequence[str], references: Sequence[str]) -> float:
    """BLEU of the paper, without smoothing: exp(mean log precision) x exp(1 - r / c) if too short."""
    matched, total = [0] * 4, [0] * 4
    for output, reference in zip(outputs, references, strict=True):
        a, b = output.split(), reference.split()
        for n in range(4):
            mine, theirs = (Counter(tuple(w[i : i + n + 1]) for i in range(len(w) - n)) for w in (a, b))
            matched[n] += (mine & theirs).total()
            total[n] += mine.total()
    if not all(matched):
        return 0.0
    size, wanted = (sum(len(text.split()) for text in texts) for texts in (outputs, references))
    precision = math.exp(sum(math.log(m / t) for m, t in zip(matched, total, strict=True)) / 4)
    return 100 * precision * math.exp(min(0.0, 1 - wanted / size))


def test_tokenized_bleu_is_multi_bleu_of_moses_tokens() -> None:
    metric = TokenizedBleu("de")
    outputs = ['Ein Mann sagt: "Hallo, Welt!"', "Der 10-jährige Junge (links) läuft z. B. heim."]
    references = ['Der Mann sagt: „Hallo, Welt!"', "Der 10-jährige Junge (links) rennt z. B. nach Hause."]
    assert metric.tokenize(outputs[1]) == "der 10-jährige junge ( links ) läuft z. b. heim ."
    wanted = multi_bleu(list(map(metric.tokenize, outputs)), list(map(metric.tokenize, references)))
    assert 20 < wanted < 90
    assert metric.score(outputs, [[reference] for reference in references]) == pytest.approx(wanted)
    assert metric.score(["ganz anders"], [["a b c d"]]) == multi_bleu(["ganz anders"], ["a b c d"]) == 0
    assert metric.score(["Ein Mann schläft ."], [["ein mann schläft."]]) == pytest.approx(100)
    unsmoothed = metric.score(["ein mann schläft dort"], [["ein mann schläft hier"]])
    assert unsmoothed == 0 < sacrebleu.corpus_bleu(["ein mann schläft dort"], [["ein mann schläft hier"]]).score


def test_the_signature_of_tokenized_bleu_names_every_choice() -> None:
    signature = TokenizedBleu("de").signature(ONE)
    for choice in ("nrefs:1", "case:lc", "norm:moses-de", "tok:moses-de", "hyphens:kept", "order:case,norm,tok"):
        assert f"{choice}|" in signature
    assert "smooth:none|" in signature
    assert "sacremoses:" in signature


def test_metrics_are_chosen_by_name() -> None:
    assert [metric.name for metric in choose_metrics(["per", "bleu", "per"])] == ["per", "bleu"]
    assert {metric.name for metric in ALL} == set(METRICS)
    with pytest.raises(UsageError, match="no metric 'blue'; choose from bleu, chrf, ter"):
        choose_metrics(["blue"])
    with pytest.raises(UsageError, match="bleu_tok_lc goes by the rules of a language"):
        choose_metrics(["bleu_tok_lc"])
    with pytest.raises(UsageError, match=r"no rules for the language 'german'; give one of .* de, "):
        choose_metrics(["bleu_tok_lc"], "german")


def test_sources_are_grouped_with_all_of_their_answers() -> None:
    sources, answers = group_by_source(["b", "a", "b", "c", "b"], ["1", "2", "3", "4", "1"])
    assert sources == ["b", "a", "c"]
    assert answers == [["1", "3", "1"], ["2"], ["4"]]
    assert group_by_source([], []) == ([], [])


def test_sources_and_targets_are_as_many() -> None:
    with pytest.raises(ValueError, match="zip"):
        group_by_source(["a"], ["1", "2"])

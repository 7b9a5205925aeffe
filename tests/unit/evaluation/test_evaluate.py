"""A whole evaluation, a whole comparison, and the reports of both."""

import json
import re
import xml.etree.ElementTree as ET
from collections import Counter
from html.parser import HTMLParser

import pytest

from qkv.evaluation.compare import Comparison, compare_outputs, verdict
from qkv.evaluation.evaluate import Evaluation, evaluate_outputs
from qkv.evaluation.files import EvaluationSet
from qkv.evaluation.metrics.registry import METRICS, choose_metrics
from qkv.evaluation.remarks import remarks_on
from qkv.evaluation.report.as_json import comparison_dict, evaluation_dict
from qkv.evaluation.report.page import comparison_report, evaluation_report, evaluation_reports, mark
from qkv.evaluation.report.tables import comparison_tables, evaluation_tables

HOSTILE = "<script>alert(1)</script> \"quoted\" & 'so' <img src=x onerror=alert(2)>"
SOURCES = ["ein Hund", "eine rote Katze schläft", "der Mann läuft", "die Frau liest ein Buch im Park", HOSTILE]
ANSWERS = [["a dog"], ["a red cat sleeps", "a red cat is asleep"], ["the man runs"], ["the woman reads"], [HOSTILE]]
OUTPUTS = ["a dog", "a red cat is sleeping", "the man", "a man reads a book", HOSTILE + "<b>"]
TEST = EvaluationSet("ref", ANSWERS, SOURCES)
METRIC_NAMES = ["bleu", "chrf", "wer"]


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    return evaluate_outputs(OUTPUTS, TEST, choose_metrics(METRIC_NAMES), Counter({"a": 2, "dog": 1, "man": 1}))


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    systems = {"one<b>": OUTPUTS, "two": [answers[0] for answers in ANSWERS], "three": ["", "a", "the man", "", "b"]}
    return compare_outputs(systems, TEST, choose_metrics(METRIC_NAMES))


def test_scores_are_those_of_the_metrics(evaluation: Evaluation) -> None:
    for score, name in zip(evaluation.scores, METRIC_NAMES, strict=True):
        assert score.value == pytest.approx(METRICS[name].score(OUTPUTS, ANSWERS))
        assert score.interval.low <= score.value <= score.interval.high
        assert score.signature == METRICS[name].signature(ANSWERS)


def test_the_scores_of_a_group_are_those_of_its_outputs(evaluation: Evaluation) -> None:
    assert evaluation.unit == "words in the source"
    members = [member for part in evaluation.by_length for member in part.group.members]
    assert sorted(members) == list(range(5))
    for part in evaluation.by_length:
        outputs = [OUTPUTS[member] for member in part.group.members]
        answers = [ANSWERS[member] for member in part.group.members]
        assert part.values == pytest.approx([METRICS[name].score(outputs, answers) for name in METRIC_NAMES])


def test_outputs_are_ranked_by_their_own_score(evaluation: Evaluation) -> None:
    assert evaluation.ranked_by.name == "chrf"
    assert evaluation.each == [METRICS["chrf"].score([o], [a]) for o, a in zip(OUTPUTS, ANSWERS, strict=True)]
    ranked = [evaluation.each[place] for place in evaluation.worst_first]
    assert ranked == sorted(ranked)
    assert evaluation.worst_first[-1] == 0


def test_error_rates_rank_by_edits() -> None:
    found = evaluate_outputs(["a b", "a c", "x"], EvaluationSet("t", [["a b"]] * 3), choose_metrics(["wer"]))
    assert found.ranked_by.name == "wer"
    assert found.worst_first == [2, 1, 0]
    assert found.unit == "words in the reference"
    assert found.by_frequency == []


def test_many_outputs_are_scored_piece_by_piece() -> None:
    """More than are scored at once."""
    test = EvaluationSet("t", ANSWERS * 50)
    found = evaluate_outputs(OUTPUTS * 50, test, choose_metrics(["bleu"]))
    assert found.scores[0].value == pytest.approx(METRICS["bleu"].score(OUTPUTS * 50, ANSWERS * 50))


def test_tables_have_as_many_cells_as_headings(evaluation: Evaluation, comparison: Comparison) -> None:
    tables = [*evaluation_tables(evaluation), *comparison_tables(comparison)]
    assert len(tables) == 3 + 2 * len(METRIC_NAMES)
    for table in tables:
        assert table.rows
        assert {len(row) for row in table.rows} == {len(table.header)}


def test_a_comparison_says_which_is_better(comparison: Comparison) -> None:
    bleu, wer = METRICS["bleu"], METRICS["wer"]
    base, perfect, empty = comparison.scores.values()
    assert verdict(bleu, base[0]) == "baseline"
    assert perfect[0].test is not None
    assert perfect[0].test.difference == pytest.approx(100 - base[0].value)
    assert verdict(wer, empty[2]) in ("worse", "no significant difference")
    many = EvaluationSet("t", ANSWERS * 40)
    found = compare_outputs(
        {"a": OUTPUTS * 40, "b": [answers[0] for answers in ANSWERS] * 40, "c": OUTPUTS * 40},
        many,
        choose_metrics(["bleu", "wer"]),
    )
    for name, words in (("b", "better"), ("c", "no significant difference")):
        assert [verdict(bleu, found.scores[name][0]), verdict(wer, found.scores[name][1])] == [words, words]
    back = compare_outputs({"b": found.systems["b"], "a": found.systems["a"]}, many, choose_metrics(["wer"]))
    assert verdict(wer, back.scores["a"][0]) == "worse"


def test_json_holds_everything(evaluation: Evaluation, comparison: Comparison) -> None:
    found = json.loads(json.dumps(evaluation_dict(evaluation)))
    assert found["scores"]["bleu"]["score"] == evaluation.scores[0].value
    assert found["scores"]["bleu"]["signature"].startswith("nrefs:var|")
    assert sum(group["outputs"] for group in found["by_length"]) == found["outputs"] == 5
    assert found["by_frequency"][0]["low"] == 0
    found = json.loads(json.dumps(comparison_dict(comparison)))
    assert found["baseline"] == "one<b>"
    two = found["metrics"]["chrf"]["systems"]["two"]
    assert two["difference"] == pytest.approx(100 - found["metrics"]["chrf"]["systems"]["one<b>"]["score"])
    assert 0 < two["p_randomization"] <= 1
    assert two["difference_low"] <= two["difference"] <= two["difference_high"]


class Tags(HTMLParser):
    """The tags and attributes of a page, as a browser sees them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes |= {name for name, _ in attrs}


@pytest.fixture(params=["evaluation", "comparison"])
def page(request: pytest.FixtureRequest, evaluation: Evaluation, comparison: Comparison) -> str:
    title = "<script>title</script>"
    if request.param == "evaluation":
        return evaluation_report(evaluation, title)
    return comparison_report(comparison, title)


def test_a_report_is_well_formed_and_needs_nothing_else(page: str) -> None:
    ET.fromstring(page)
    assert "http" not in page.replace("http-equiv", "")
    assert "url(" not in page
    assert 'name="viewport"' in page
    assert "prefers-color-scheme: dark" in page


def test_a_report_runs_nothing_that_it_shows(page: str) -> None:
    found = Tags(page)
    assert not found.tags.keys() & {"script", "img", "b", "iframe", "link", "object"}
    assert not any(name.startswith("on") for name in found.attributes)
    assert "&lt;script&gt;" in page
    assert "default-src 'none'" in page


def test_a_report_shows_outputs_beside_references(page: str) -> None:
    assert page.count("<article>") >= 5
    assert '<dt>also right</dt><dd dir="auto">a red cat sleeps</dd>' in page
    assert page.count("<svg") >= len(METRIC_NAMES)
    assert re.search(r'<mark class="extra">[^<]*sleeping', page)
    for title in ("BLEU", "chrF", "WER"):
        assert f"{title}: <code>nrefs:var|" in page


def test_an_evaluation_report_has_the_worst_first_and_the_best_first(evaluation: Evaluation) -> None:
    page = evaluation_report(evaluation, "t", examples=2)
    assert page.count("<article>") == 4
    numbers = [int(number) - 1 for number in re.findall(r"<header>no\. (\d+)", page)]
    assert numbers == [*evaluation.faulty[:2], *evaluation.worst_first[::-1][:2]]
    assert page.index("Worst outputs") < page.index("Best outputs")
    assert evaluation_report(evaluation, "t", examples=0).count("<article>") == 0


@pytest.mark.parametrize("names", [["bleu"], ["wer"], ["exact"], ["chrf", "cer"]])
def test_the_worst_outputs_are_never_perfect_ones(names: list[str]) -> None:
    """Also where chrF calls an output perfect that only lacks a space, or an edit rate one with other spaces."""
    outputs = ["a dog", "a  cat", "the man", "no", "", "fine"]
    test = EvaluationSet("t", [["a dog"], ["a cat"], ["a man", "the man"], ["yes"], ["some"], ["fine"]])
    found = evaluate_outputs(outputs, test, choose_metrics(names))
    assert sorted(found.faulty) == [3, 4]
    worst = evaluation_report(found, "t").split("Best outputs")[0]
    assert sorted(re.findall(r"<header>no\. (\d+)", worst)) == ["4", "5"]
    perfect = evaluate_outputs(["yes"], EvaluationSet("t", [["yes"]]), choose_metrics(names))
    assert "<p>Every output is perfect.</p>" in evaluation_report(perfect, "t")


def test_a_comparison_shows_only_what_differs() -> None:
    test = EvaluationSet("t", [["a b"], ["c"], ["d"]])
    found = compare_outputs({"x": ["a b", "c", "q"], "y": ["a b", "e", "q"]}, test, choose_metrics(["chrf"]))
    assert found.largest_difference_first == [1]
    equal = compare_outputs({"x": ["a", "c", "q"], "y": ["a", "c", "q"]}, test, choose_metrics(["chrf"]))
    assert "The outputs of all systems are equally good." in comparison_report(equal, "t")


def test_several_test_sets_are_on_one_page(evaluation: Evaluation) -> None:
    page = evaluation_reports({"test": evaluation, "dev": evaluation}, "t", examples=1)
    ET.fromstring(page)
    assert page.index('<h2 class="part">test: ref</h2>') < page.index('<h2 class="part">dev: ref</h2>')
    assert page.count("Worst outputs") == 2


def test_plots_have_labelled_axes_and_intervals(page: str) -> None:
    root = ET.fromstring(page)
    charts = root.findall(".//figure/svg")
    assert len(charts) >= len(METRIC_NAMES)
    for chart in charts:
        words = [text.text for text in chart.iter("text")]
        assert any("is better)" in str(word) for word in words)
        assert "0" in words
        bars = [str(title.text) for title in chart.iter("title")][1:]
        assert bars
        assert all(re.search(r": \d+\.\d\d \(95 %: \d+\.\d\d to \d+\.\d\d\)$", tip) for tip in bars)
    assert "length: words in the source" in page


def test_differences_are_marked() -> None:
    found = mark("a red cat is sleeping", "a big red cat sleeps")
    assert [piece.text for piece in found.output if not piece.shared] == ["is sleeping"]
    assert [piece.text for piece in found.reference if not piece.shared] == ["big", "sleeps"]
    for pieces, text in ((found.output, "a red cat is sleeping"), (found.reference, "a big red cat sleeps")):
        assert "".join(piece.text for piece in pieces) == text


def test_the_outputs_that_differ_most_come_first(comparison: Comparison) -> None:
    order = comparison.largest_difference_first
    spreads = [max(scores) - min(scores) for scores in zip(*comparison.each.values(), strict=True)]
    assert sorted(order) == list(range(5))
    assert [spreads[place] for place in order] == sorted(spreads, reverse=True)
    assert spreads[order[0]] > spreads[order[-1]]
    page = comparison_report(comparison, "t", examples=3)
    assert [int(number) - 1 for number in re.findall(r"<header>no\. (\d+)", page)] == order[:3]


def test_words_that_are_everywhere_are_compared_too() -> None:
    """And texts without end are shown as they are."""
    found = mark("is" + " so" * 300, "was" + " so" * 300)
    assert [piece.text for piece in found.output if not piece.shared] == ["is"]
    assert [piece.text for piece in found.reference if not piece.shared] == ["was"]
    assert all(piece.shared for piece in mark("so " * 3000, "no " * 3000).output)


def test_single_words_are_compared_by_letters() -> None:
    found = mark("kitten", "sitting")
    assert "".join(piece.text for piece in found.reference) == "sitting"
    assert "".join(piece.text for piece in found.output if piece.shared) == "ittn"
    assert mark("", "").output == []
    assert [piece.text for piece in mark("", "x").reference] == ["x"]


def test_remarks() -> None:
    assert remarks_on(["all is well.", "Yes."]) == []
    assert remarks_on(["", "a"]) == ["1 of 2 outputs are empty"]
    assert "full stop that stands alone" in remarks_on(["this is it .", "so ."])[0]
    assert "marks of subwords" in remarks_on(["to@@ ken", "a"])[0]

"""Which metrics are chosen when nobody says."""

import pytest

from qkv.cli.shared.evaluation_options import choose
from qkv.core.errors import UsageError
from qkv.evaluation.compare import compare_outputs
from qkv.evaluation.evaluate import evaluate_outputs
from qkv.evaluation.files import EvaluationSet
from qkv.evaluation.metrics.default import default_metrics
from qkv.evaluation.metrics.registry import METRICS, choose_metrics

SCAN = ["I_TURN_RIGHT I_JUMP", "I_WALK I_WALK I_TURN_LEFT", "I_LOOK", "I_RUN I_RUN"] * 20
ENGLISH = ["A dog runs.", "Two men are riding their bikes.", "A woman reads a book in the park.", "Yes."]


@pytest.mark.parametrize(
    ("references", "sources", "names"),
    [
        (["R EH1 D", "T AH0 M EY1 T OW2", "AA1"], ["read", "tomato", "ah"], ["g2p_wer", "per"]),
        (["t͡ʃː ɛ ˈl oː", "h aː z", "ʃ"], ["cello", "ház", "s"], ["g2p_wer", "per"]),
        (["R EH1 D", "T AH0 M EY1 T OW2"], None, ["g2p_wer", "per"]),
        (["cba", "deef", "a"], ["abc", "feed", "a"], ["exact", "cer"]),
        (SCAN, ["jump right", "walk twice turn left", "look", "run twice"] * 20, ["exact", "wer"]),
        (["3 2 1", "5 4", "9 9 1"] * 20, ["1 2 3", "4 5", "1 9 9"] * 20, ["exact", "wer"]),
        (ENGLISH, ["Ein Hund läuft.", "Zwei Männer fahren Rad.", "Eine Frau liest.", "Ja."], ["bleu", "chrf", "ter"]),
        (ENGLISH, None, ["bleu", "chrf", "ter"]),
        (["the bank", "to go", "the sea shore"], ["Bank", "gehen", "Meeresufer"], ["bleu", "chrf", "ter"]),
        (["一只狗在草地上跑。", "两个男人骑自行车。"], ["A dog runs.", "Two men ride."], ["chrf", "cer"]),
        (["สุนัขวิ่งบนหญ้า"], None, ["chrf", "cer"]),
    ],
    ids=["arpabet", "ipa", "no sources", "words", "scan", "digits", "sentences", "refs", "phrases", "chinese", "thai"],
)
def test_by_what_the_references_hold(references: list[str], sources: list[str] | None, names: list[str]) -> None:
    found = default_metrics([[reference] for reference in references], sources)
    assert found.names == names
    assert found.why
    assert set(names) <= set(METRICS)


def test_a_language_adds_what_needs_it() -> None:
    answers = [[text] for text in ENGLISH]
    assert default_metrics(answers, language="en").names == ["bleu", "chrf", "ter", "bleu_tok_lc"]
    assert "bleu_tok_lc" not in default_metrics([["abc"]], language="en").names


def test_a_bleu_that_cannot_be_other_than_0_is_remarked_on() -> None:
    words = EvaluationSet("t", [["abc"], ["cde"], ["e f"]])
    (remark,) = evaluate_outputs(["abc", "cde", "e f"], words, choose_metrics(["bleu", "exact"])).remarks
    assert remark.startswith("BLEU is 0 since it counts sequences of up to four words, and 2 of 3 references")
    assert "--metrics exact,cer" in remark
    assert evaluate_outputs(["abc", "cde", "x"], words, choose_metrics(["exact", "cer"])).remarks == []
    compared = compare_outputs({"a": ["abc", "q", "q"], "b": ["q", "q", "q"]}, words, choose_metrics(["bleu", "exact"]))
    assert [said.split(" since")[0] for said in compared.remarks] == ["BLEU is 0"]
    wrong = EvaluationSet("t", [["these are five good words"]])
    assert evaluate_outputs(["none"], wrong, choose_metrics(["bleu"])).remarks == []


def test_lower_case_against_capitals_is_remarked_on() -> None:
    test = EvaluationSet("t", [["A dog runs fast here."], ["Two men ride their bikes."], ["yes"]])
    metrics = choose_metrics(["chrf"])
    (remark,) = evaluate_outputs(["a dog runs fast here.", "two men ride.", "yes"], test, metrics).remarks
    assert remark.startswith("no output has a capital letter, but 2 of 3 references have")
    assert remark.endswith("so case-sensitive scores are too low; bleu_tok_lc (with --lang) ignores case")
    assert evaluate_outputs(["A dog runs fast here.", "two men ride.", "yes"], test, metrics).remarks == []
    assert evaluate_outputs(["yes"], EvaluationSet("t", [["yes"]]), metrics).remarks == []


def test_the_language_of_a_recipe_adds_nothing_if_moses_has_no_rules_for_it() -> None:
    """Unlike that of --lang, which is refused: nobody asked for its rules here."""
    answers = [["a sentence of ordinary words"], ["one more sentence"]]
    found = {
        language: choose(None, EvaluationSet("test", answers, language=language), None) for language in ("de", "tr")
    }
    assert [metric.name for metric in found["de"]] == ["bleu", "chrf", "ter", "bleu_tok_lc"]
    assert [metric.name for metric in found["tr"]] == ["bleu", "chrf", "ter"]
    with pytest.raises(UsageError, match="no rules for the language 'tr'"):
        choose(None, EvaluationSet("test", answers), "tr")

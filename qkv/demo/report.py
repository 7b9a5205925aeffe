"""The report of the demonstration."""

from qkv.demo.desk import Desk, guesses
from qkv.demo.folder import DemoFolder, Results
from qkv.evaluation.files import EvaluationSet

SHOWN = 8
PUBLISHED = """\
Published WER, for orientation; other words were held out there, so the digits cannot be compared:
  this dictionary, as it was then     33.9 %  Phonetisaurus (README of g2p-seq2seq)
                                      30.2 %  Transformer of three layers (README of g2p-seq2seq)
  an older edition, split g014b2b     24.4 %  Phonetisaurus (README of g2p-seq2seq)
                                      20.2 %  Transformer (README of g2p-seq2seq)
                                      19.9 %  distilled ensemble, with more words (Sun et al. 2019)"""
FURTHER = (
    "The recipe cmudict-g2p goes further: a larger model on the split g014b2b. The three runs in its comment\n"
    "(qkv recipe show cmudict-g2p) take 90 minutes of one core and reach a WER of 24.5 %; see docs/results.md."
)


def report_lines(place: DemoFolder, results: Results, desk: Desk) -> list[str]:
    """Scores, examples, and where the model is."""
    return [
        *result_lines(results),
        "",
        *example_lines(place.test(), desk),
        "",
        f"The model is in {place.run.best} (qkv translate {place.run.path} reads words from standard input).",
        FURTHER,
    ]


def result_lines(results: Results) -> list[str]:
    """The error rates, with published ones for comparison."""
    wer, per = results.scores["g2p_wer"], results.scores["per"]
    return [
        f"{results.held_out:,} words that the model has not seen, after {results.minutes:.3g} minutes "
        f"({results.updates:,} updates) with {results.learned:,} others:",
        f"  WER {wer.score:4.1f} %   words with any mistake (95 % interval: {wer.low:.1f} to {wer.high:.1f})",
        f"  PER {per.score:4.1f} %   phonemes wrong, missing or needless ({per.low:.1f} to {per.high:.1f})",
        "",
        PUBLISHED,
    ]


def example_lines(test: EvaluationSet, desk: Desk) -> list[str]:
    """Some of the words, from all over the alphabet, and what was looked at in the longest that came out right."""
    assert test.sources is not None
    chosen = range(0, len(test), max(1, len(test) // SHOWN))[:SHOWN]
    answers = [test.references[place] for place in chosen]
    found = desk.pronounce([test.sources[place] for place in chosen])
    right = [one for one, own in zip(found, answers, strict=True) if one.text in own]
    lines = ["Some of these words, and how probable the model finds its best answers:"]
    for place, one, own in zip(chosen, found, answers, strict=True):
        lines += [f"{test.sources[place]}: {'right' if one in right else 'wrong'}", *guesses(one, own)]
    pictured = max(right or found, key=lambda one: len(one.src_tokens))
    word = "".join(pictured.src_tokens[:-1])
    return [*lines, "", f"Which letters of {word} the model looked at for each phoneme:", *desk.picture(pictured)]

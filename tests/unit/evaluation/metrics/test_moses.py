"""The tokens that published BLEU on Multi30k counts."""

import os
from pathlib import Path

import pytest

from qkv.evaluation.metrics.sacre import moses_tokenizer

MULTI30K = Path(os.environ.get("QKV_DATA", "data")) / "multi30k"


@pytest.mark.skipif(not MULTI30K.is_dir(), reason="the corpus is not free to distribute; QKV_DATA names its folder")
def test_the_reference_has_as_many_tokens_as_in_the_published_log() -> None:
    """12,103 in the log of Wu 2021. Lower-casing last gives one less, splitting hyphens 140 more."""
    tokenize = moses_tokenizer("de")
    lines = (MULTI30K / "test_2016_flickr.de").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1000
    assert sum(len(tokenize(line).split()) for line in lines) == 12_103


def test_tokens_follow_the_rules_of_the_language() -> None:
    """English moves a comma into the quotation marks; apostrophes belong to what follows, in French to the front."""
    assert moses_tokenizer("en")("It's a T-shirt & “this”, too.") == 'it \'s a t-shirt & " this , " too .'
    assert moses_tokenizer("fr")("L'homme dit «oui», donc.") == 'l\' homme dit " oui " , donc .'

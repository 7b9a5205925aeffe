"""Alignment error rate, and the choice of a head."""

import numpy as np
import pytest

from qkv.core.errors import UsageError
from qkv.data.alignments.pharaoh import parse_alignment
from qkv.evaluation.alignment import best_head, score_alignments
from qkv.layers.attention.recording import capture_attention
from qkv.models.saved.folder import SavedConfig, SavedModel
from qkv.translate.align import Aligner, AlignmentHead
from qkv.translate.output import words_of_translation
from qkv.translate.translator import Translator
from tests.support.small import small_config, small_model, small_text

PAIRS = [("aa ab bc", "ba cb"), ("ca", "aa bb cc ab"), ("bb ba", "cc")]


@pytest.fixture(scope="module")
def aligner() -> Aligner:
    text, tokenizers = small_text()
    model = small_model(src_vocab=len(tokenizers.src), tgt_vocab=len(tokenizers.tgt))
    return Aligner(SavedModel(model, tokenizers, SavedConfig(model=small_config(), text=text)))


def test_the_error_rate_of_och_and_ney() -> None:
    gold = [parse_alignment("0-0 1-1 1?2", "gold:1"), parse_alignment("", "gold:2")]
    found = [frozenset({(0, 0), (1, 2), (3, 3)}), frozenset({(0, 0)})]
    score = score_alignments(found, gold)
    assert score.error_rate == pytest.approx(100 * (1 - (1 + 2) / (4 + 2)))
    assert score.precision == pytest.approx(50)
    assert score.recall == pytest.approx(50)
    assert score_alignments([frozenset({(0, 0), (1, 1)}), frozenset()], gold).error_rate == 0


def test_weights_are_those_of_one_pass_over_the_pair(aligner: Aligner) -> None:
    """A batch of all pairs, and each head against what the recorder sees."""
    for row, (src, tgt) in enumerate(PAIRS):
        with capture_attention(aligner.saved.model) as record:
            aligner.align([(src, tgt)], AlignmentHead(1, 1))
        weights = record["decoder.layers.1.cross_attention"][0].numpy()
        words, length = len(tgt.split()), len(src.split())
        for head, wanted in (
            (AlignmentHead(2, 2), weights[1, :words, :length]),
            (AlignmentHead(2, 0), weights.mean(axis=0)[:words, :length]),
            (AlignmentHead(2, 1, shifted=True), weights[0, 1 : words + 1, :length]),
        ):
            found = aligner.align(PAIRS, head)[row]
            assert found.src_words == src.split()
            np.testing.assert_allclose(found.weights, wanted, atol=1e-6)


def test_every_head_is_a_candidate_and_the_best_on_gold_links_is_chosen(aligner: Aligner) -> None:
    heads = aligner.heads()
    assert len(heads) == len(set(heads)) == 2 * 3 * 2
    wanted = AlignmentHead(2, 1, shifted=True)
    gold = [parse_alignment(" ".join(f"{s}-{t}" for s, t in one.links), "") for one in aligner.align(PAIRS, wanted)]
    chosen = best_head(aligner, PAIRS, gold)
    assert score_alignments([one.links for one in aligner.align(PAIRS, chosen)], gold).error_rate == 0


def test_without_gold_links_the_most_decided_head_is_chosen(aligner: Aligner) -> None:
    def decision(head: AlignmentHead) -> float:
        found = aligner.align(PAIRS, head)
        return float(np.mean(np.concatenate([one.weights.max(axis=1) for one in found])))

    chosen = best_head(aligner, PAIRS)
    assert decision(chosen) == pytest.approx(max(decision(head) for head in aligner.heads()))


def test_batches_do_not_matter(aligner: Aligner) -> None:
    one_by_one = Aligner(aligner.saved, batch_tokens=1)
    for together, alone in zip(
        aligner.align(PAIRS, AlignmentHead(1, 2)), one_by_one.align(PAIRS, AlignmentHead(1, 2)), strict=True
    ):
        np.testing.assert_allclose(together.weights, alone.weights, atol=1e-6)


def test_a_translation_is_aligned_by_the_head_that_is_named(aligner: Aligner) -> None:
    """As the pair of source and output is; by the mean over the last layer's heads, as the search itself records it."""
    translator = Translator(aligner.saved, engine="torch", search={"kind": "beam", "size": 3, "max_length": 6})
    sources = [src for src, _ in PAIRS]
    for head in (AlignmentHead(1, 2), AlignmentHead(2, 1, shifted=True)):
        for source, own in zip(sources, translator.translate(sources, nbest=2, alignment=head), strict=True):
            for one in (own, *own.alternatives):
                (wanted,) = aligner.align([(source, one.text)], head)
                np.testing.assert_allclose(words_of_translation(one).weights, wanted.weights, atol=1e-5)
    plain, named = (translator.translate(sources, alignment=how) for how in (True, AlignmentHead(2, 0)))
    for one, two in zip(plain, named, strict=True):
        np.testing.assert_allclose(np.array(one.alignment), np.array(two.alignment), atol=1e-5)


def test_a_head_that_is_not_there(aligner: Aligner) -> None:
    translator = Translator(aligner.saved, engine="torch", search="greedy")
    with pytest.raises(UsageError, match="the decoder has the layers 1 to 2"):
        aligner.align(PAIRS, AlignmentHead(3, 1))
    with pytest.raises(UsageError, match="layer 2 has the heads 1 to 2, and 0 is their mean"):
        translator.translate("a b", alignment=AlignmentHead(2, 3))
    both = Translator([aligner.saved, aligner.saved], engine="torch", search="greedy")
    with pytest.raises(UsageError, match="give one model"):
        both.translate("a b", alignment=AlignmentHead(1, 1))

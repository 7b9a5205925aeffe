"""IBM model 1 against loops, and the entropy of texts whose entropy is known."""

import math
import random
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from qkv.cli.app import app
from qkv.core.errors import DataError
from qkv.evaluation.modality import (
    EMPTY,
    AlignmentLinks,
    IdPair,
    align,
    candidates,
    entropies,
    fit,
    measure,
    plain_words,
    spread_texts,
)


def random_pairs(count: int, seed: int = 0) -> list[IdPair]:
    source = random.Random(seed)

    def ids() -> list[int]:
        return [source.randrange(5) for _ in range(source.randint(1, 4))]

    return [(ids(), ids()) for _ in range(count)]


def by_loops(pairs: list[IdPair], rounds: int) -> tuple[list[tuple[int, int]], float]:
    """The definition, word by word: the links, and the mean log-likelihood after the last round."""
    t: dict[tuple[int, int], float] = defaultdict(lambda: 1.0)
    for _ in range(rounds):
        counts: dict[tuple[int, int], float] = defaultdict(float)
        for src, tgt in pairs:
            for y in tgt:
                whole = sum(t[x, y] for x in [*src, EMPTY])
                for x in [*src, EMPTY]:
                    counts[x, y] += t[x, y] / whole
        sums: dict[int, float] = defaultdict(float)
        for (x, _), count in counts.items():
            sums[x] += count
        t = {(x, y): count / sums[x] for (x, y), count in counts.items()}
    words = [(src, y) for src, tgt in pairs for y in tgt]
    logs = [math.log(sum(t[x, y] for x in [*src, EMPTY])) for src, y in words]
    return [(max([*src, EMPTY], key=lambda x: t[x, y]), y) for src, y in words], sum(logs) / len(logs)


@pytest.mark.parametrize("rounds", [1, 4])
def test_it_is_the_definition(rounds: int) -> None:
    pairs = random_pairs(40)
    links = align(candidates(pairs), rounds)
    expected, likelihood = by_loops(pairs, rounds)
    assert list(zip(links.src.tolist(), links.tgt.tolist(), strict=True)) == expected
    assert fit(candidates(pairs), rounds)[-1] == pytest.approx(likelihood)


def test_no_round_lowers_the_likelihood() -> None:
    likelihoods = fit(candidates(random_pairs(100)), 10)
    assert all(after >= before - 1e-12 for before, after in pairwise(likelihoods[1:]))
    assert likelihoods[-1] > likelihoods[1]


def test_a_dictionary_is_found_whatever_the_order() -> None:
    source = random.Random(1)
    pairs = []
    for _ in range(300):
        src = source.sample(range(20), 4)
        pairs.append((src, source.sample([7 * x % 20 for x in src], 4)))
    links = align(candidates(pairs))
    assert (links.src * 7 % 20 == links.tgt).all()


def test_entropy_of_known_links() -> None:
    each, often = entropies(AlignmentLinks(np.array([0, 0, 0, 0, 1, EMPTY]), np.array([3, 3, 4, 5, 9, 9])))
    assert each.tolist() == pytest.approx([1.5, 0.0])
    assert often.tolist() == [4, 1]


def written(words: list[list[str]]) -> list[tuple[str, str]]:
    """A text of the words a to h, and for each of them one of its translations."""
    source = random.Random(2)
    texts = [source.sample("abcdefgh", 3) for _ in range(600)]
    return [(" ".join(text), " ".join(source.choice(words["abcdefgh".index(word)]) for word in text)) for text in texts]


def test_one_way_of_saying_it_has_no_entropy_and_two_have_one_bit() -> None:
    one = measure(written([[f"x{n}"] for n in range(8)]), str.split, str.split)
    two = measure(written([[f"x{n}", f"y{n}"] for n in range(8)]), str.split, str.split)
    assert one.entropy == one.mean_entropy == 0
    assert one.perplexity == 1
    assert two.entropy == pytest.approx(1, abs=0.02)
    assert two.mean_entropy == pytest.approx(1, abs=0.02)


def test_words_and_signs() -> None:
    assert plain_words("Ein Haus, groß.") == ["ein", "haus", ",", "groß", "."]
    assert plain_words("I_TURN_LEFT don't 3.5") == ["i_turn_left", "don", "'", "t", "3", ".", "5"]
    # Combining marks: a nasal vowel of IPA, a vowel sign of Devanagari, an accent in two characters.
    assert plain_words("bɔ̃ हिन्दी cafe\u0301!") == ["bɔ̃", "हिन्दी", "cafe\u0301", "!"]


def test_what_is_left_out_is_counted() -> None:
    found = measure([("a", "b"), ("", "b"), ("a", " "), ("a " * 101, "b")], str.split, str.split)
    assert (found.pairs, found.left_out) == (1, 3)
    with pytest.raises(DataError, match="1 to 100 words"):
        measure([("", "")], str.split, str.split)


def test_the_command(tmp_path: Path) -> None:
    for side, texts in zip(("src", "tgt"), zip(*written([["x"]] * 4 + [["y"]] * 4), strict=True), strict=True):
        (tmp_path / side).write_text("".join(text + "\n" for text in texts))
    arguments = ["data", "modality", "--src", str(tmp_path / "src"), "--tgt", str(tmp_path / "tgt"), "--pairs", "300"]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.stdout.startswith(
        "300 pairs, 8 different source words, 8 of them aligned\nmean entropy of an aligned source word: 0.000 bits\n"
    )
    # As many pairs as were asked for, also where their number does not divide that of the lines.
    arguments[-1] = "400"
    assert CliRunner().invoke(app, arguments, catch_exceptions=False).stdout.startswith("400 pairs, 8 different")


def test_every_different_source_word_is_counted() -> None:
    """x is aligned with nothing: each of its sentences has another word that explains the target better."""
    found = measure([("a x", "b"), ("a", "b"), ("a", "b"), ("x c", "d"), ("c", "d"), ("c", "d")], str.split, str.split)
    assert (found.src_words, found.aligned_src_words) == (3, 2)


@pytest.mark.parametrize(("total", "wanted"), [(10, 3), (10, 9), (10, 10), (3, 10), (150, 100), (1, 1)])
def test_so_many_are_spread_evenly(total: int, wanted: int) -> None:
    chosen = list(spread_texts(range(total), total, wanted))
    assert len(chosen) == min(total, wanted)
    gaps = {after - before for before, after in pairwise(chosen)}
    assert len(gaps) <= 2
    assert chosen[0] == 0

"""Texts in, translations out, in their order: whatever the batches, the chunks and the processes."""

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from qkv.core.errors import QkvError, UsageError
from qkv.search.beam import BeamConfig
from qkv.search.greedy import GreedyConfig, GreedySearch
from qkv.translate import translator
from qkv.translate.output import Translation
from qkv.translate.translator import Translator
from tests.support.forks import Forks
from tests.support.small import WORDS, small_text
from tests.support.speaker import SHORT, assert_same, endless, save_speaker, sentences, speaker, torch_translator


def texts(found: list[Translation]) -> list[str]:
    return [translation.text for translation in found]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_speaker(tmp_path_factory.mktemp("models") / "one")


def test_a_sentence_does_not_depend_on_its_batch(forks: Forks) -> None:
    """1,000 sentences; in a process without the checks of shapes, which would take most of the time."""
    ended = forks.call("tests.support.speaker:compare_batches", 1000)
    assert ended.code == 0, ended.stderr


def test_the_limit_is_that_of_the_text_and_not_of_its_batch() -> None:
    """2 |source| + 10 tokens, END included in the source's length; and the output says that it was cut."""
    given = ["aa", "aa ab ac ba bb bc"]
    found = torch_translator(endless(), search=GreedyConfig()).translate(given)
    assert [len(one.tokens) for one in found] == [14, 24]
    assert all(one.truncated and one.out_cut and not one.src_cut for one in found)
    assert [len(one.token_scores) for one in found] == [14, 24]


@pytest.mark.parametrize("search", [GreedyConfig(**SHORT), BeamConfig(**SHORT)])
def test_an_empty_text_has_an_empty_translation(search: Any) -> None:
    found = torch_translator(search=search).translate(["", "aa", " \t ", "ab"], alignment=True)
    assert found[0] == found[2] == Translation("", 0.0, [], [], [], alignment=[])
    assert not found[0].truncated
    assert found[1].tokens
    assert torch_translator().translate([]) == []


def test_only_unknown_words() -> None:
    found = torch_translator().translate(["zz </s> <pad>", "zz zz zz", "<s>"])
    assert found[0].text == found[1].text
    assert found[0].src_tokens == ["<unk>", "<unk>", "<unk>", "</s>"]
    assert [one.unknown for one in found] == [["zz", "</s>", "<pad>"], ["zz", "zz", "zz"], ["<s>"]]


def test_unknown_words_of_a_text_in_parts() -> None:
    text = " ".join([*WORDS, "zz", *WORDS, "yy"])
    (found,) = torch_translator(max_src_tokens=5).translate([text])
    assert found.parts > 1
    assert found.unknown == ["zz", "yy"]


def test_a_source_that_shall_not_be_split_is_cut_and_says_so() -> None:
    long, short = " ".join(WORDS), " ".join(WORDS[:4])
    found = torch_translator(max_src_tokens=5, split_long=False).translate([long, short, WORDS[0]])
    assert [one.src_cut for one in found] == [True, False, False]
    assert found[0].truncated
    assert found[0].src_tokens == found[1].src_tokens == [*WORDS[:4], "</s>"]
    assert found[0].text == found[1].text


def test_learned_positions_are_a_limit() -> None:
    model = speaker(positions={"kind": "learned", "max_length": 6})
    found = torch_translator(model, max_src_tokens=None, search=GreedyConfig()).translate([" ".join(WORDS), "aa"])
    assert [one.parts for one in found] == [2, 1]
    assert found[0].src_tokens == [*WORDS[:5], "</s>", *WORDS[5:], "</s>"]
    assert all(len(one.tokens) <= 6 * one.parts for one in found)


def test_ten_thousand_tokens() -> None:
    """By default in parts of 1,024; without a limit all of them at once."""
    text = " ".join(random.Random(0).choices(WORDS, k=10_000))
    search = GreedyConfig(max_length=3)
    parts, whole = (torch_translator(max_src_tokens=each, search=search).translate([text])[0] for each in (1024, None))
    assert (len(parts.src_tokens), parts.parts, parts.split_at) == (10_010, 10, "word")
    assert (len(whole.src_tokens), whole.parts, whole.split_at) == (10_001, 1, None)
    assert not parts.src_cut
    assert not whole.src_cut


def test_nbest_alternatives_and_alignment() -> None:
    given = sentences(5)
    found = torch_translator(search=BeamConfig(size=4, **SHORT)).translate(given, nbest=3, alignment=True)
    for one in found:
        each = [one, *one.alternatives]
        assert len({other.text for other in each}) == 3
        assert [other.score for other in each] == sorted((other.score for other in each), reverse=True)
        for other in each:
            assert other.alternatives == [] or other is one
            assert other.alignment is not None
            assert len(other.alignment) == len(other.tokens)
            for row in other.alignment:
                assert len(row) == len(one.src_tokens)
                assert sum(row) == pytest.approx(1, abs=1e-4)
    assert all(one.alignment is None for one in torch_translator().translate(given))


def test_alignment_is_not_that_of_the_padding() -> None:
    """The weights of a short sentence are the same beside a long one."""
    alone = torch_translator().translate(["aa ab"], alignment=True)[0]
    beside = torch_translator().translate(["aa ab", " ".join(WORDS)], alignment=True)[0]
    assert alone.alignment
    assert torch.allclose(torch.tensor(alone.alignment), torch.tensor(beside.alignment), atol=1e-5)


def test_a_search_that_ranks_by_attention_gets_it() -> None:
    found = torch_translator(search=BeamConfig(coverage_penalty=0.5, **SHORT)).translate(sentences(3))
    assert all(one.alignment is None for one in found)


@pytest.mark.parametrize(
    "problem", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory"), RuntimeError("bad_alloc")]
)
def test_too_little_memory_is_one_sentence(problem: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise problem

    monkeypatch.setattr(GreedySearch, "run", fail)
    with pytest.raises(QkvError, match=r"not enough memory .* 300 source tokens; lower batch_tokens or max_src_tokens"):
        torch_translator(batch_tokens=300).translate(["aa"])


def test_another_error_of_the_engine_stays_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("shapes do not fit")

    monkeypatch.setattr(GreedySearch, "run", fail)
    with pytest.raises(RuntimeError, match="shapes do not fit"):
        torch_translator().translate(["aa"])


@pytest.mark.parametrize("training", [True, False])
def test_dropout_is_off_and_everything_is_left_as_it_was(training: bool) -> None:
    saved = speaker(dropout=0.9)
    saved.model.train(training)
    threads, random_state = torch.get_num_threads(), torch.get_rng_state()
    first, second = (torch_translator(saved).translate(sentences(8)) for _ in range(2))
    assert first == second
    assert saved.model.training is training
    assert torch.is_grad_enabled()
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), random_state)


def test_the_mode_comes_back_after_an_interruption() -> None:
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    saved = speaker()
    saved.model.train()
    with pytest.raises(KeyboardInterrupt):
        torch_translator(saved).translate(sentences(8), progress=stop)
    assert saved.model.training


def test_progress_counts_texts_up_to_all_of_them() -> None:
    seen: list[tuple[int, int]] = []
    given = [*sentences(8), ""]
    torch_translator(batch_tokens=20).translate(given, progress=lambda done, total: seen.append((done, total)))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert len({done for done, _ in seen}) > 2
    assert seen[-1] == (9, 9)
    assert {total for _, total in seen} == {9}


def test_a_stream_is_read_a_piece_at_a_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same translations as of the list; never much more is read than was given away."""
    monkeypatch.setattr(translator, "CHUNK", 8)
    given, read = sentences(50), 0

    def lines() -> Iterator[str]:
        nonlocal read
        for line in given:
            read += 1
            yield line

    found = []
    for one in torch_translator(folder, workers=1).stream(lines(), nbest=1):
        found.append(one)
        assert read <= len(found) + 2 * 8
    assert_same(found, torch_translator().translate(given))
    assert list(torch_translator(folder).stream([])) == []


def test_models_form_an_ensemble(folder: Path, tmp_path: Path) -> None:
    """Two equal models say what one says; another one changes the scores. Folders, a run and memory are the same."""
    given = sentences(6)
    one = torch_translator(folder).translate(given)
    assert_same(torch_translator([folder, folder]).translate(given), one)
    other = save_speaker(tmp_path / "run" / "best", seed=4)
    both = torch_translator([folder, tmp_path / "run"]).translate(given)
    assert [found.score for found in both] != [found.score for found in one]
    assert_same(torch_translator([speaker(), speaker(4)]).translate(given), both)
    assert other.name == "best"


def test_models_of_different_vocabularies_form_no_ensemble(folder: Path) -> None:
    config, _ = small_text()
    # One word is seen more often than the others, so it has another id.
    tokenizers = config.train(lambda: [" ".join([*WORDS, WORDS[-1]])], lambda: [])
    stranger = replace(speaker(), tokenizers=tokenizers)
    with pytest.raises(UsageError, match="model 2: has another vocabulary than model 1"):
        torch_translator([speaker(), stranger]).translate(["aa"])
    with pytest.raises(UsageError, match="give either folders of models or models in memory"):
        torch_translator([folder, stranger])
    with pytest.raises(UsageError, match="at least one"):
        Translator([])


def test_score_is_that_of_the_search() -> None:
    """The scores of the search's own output add up to those of the same text as a target, token by token."""
    given = sentences(20)
    for models in ([speaker()], [speaker(), speaker(4)]):
        found = torch_translator(models, search=BeamConfig(size=3), batch_tokens=100).translate(given)
        ended = [(text, one) for text, one in zip(given, found, strict=True) if not one.out_cut]
        assert len(ended) > 3
        scored = torch_translator(models, batch_tokens=50).score([(text, one.text) for text, one in ended])
        for (_, one), own in zip(ended, scored, strict=True):
            assert own.tokens == one.tokens
            assert own.token_scores == pytest.approx(one.token_scores, abs=1e-5)
            assert own.score == pytest.approx(sum(one.token_scores), abs=1e-4)
            assert own.per_token * len(own.token_scores) == pytest.approx(own.score)


def test_every_next_token_has_a_share_of_one() -> None:
    """p(END) + sum of p(word ...) over all words = 1: what cannot be output has none."""
    judge = torch_translator()
    ids = ["", *WORDS, "zz"]
    first = [scores.token_scores[0] for scores in judge.score([("aa ab", word) for word in ids])]
    assert torch.tensor(first).exp().sum() == pytest.approx(1, abs=1e-5)


def test_score_of_a_target_that_is_too_long() -> None:
    model = speaker(positions={"kind": "learned", "max_length": 4})
    with pytest.raises(QkvError, match="pair 8: its target has 5 tokens, but the model reads 4 at most"):
        torch_translator(model).score([("aa", "aa"), ("aa", "aa ab ac ba")], first=7)
    with pytest.raises(QkvError, match="pair 1: its source"):
        torch_translator(model).score([("aa ab ac ba", "aa")])

"""A fast engine whose search is worse than ours is noticed on the first sources, and not used."""

from io import StringIO
from pathlib import Path

import pytest

from qkv.core.progress import PlainReporter
from qkv.engines import ctranslate2_engine
from qkv.engines import ctranslate2_engine as patience
from qkv.engines.agreement import COUNT, TOKENS, MeanScores, mean_scores, some_of
from qkv.engines.base import DecodeRequest
from qkv.engines.torch_engine import TorchEngine
from qkv.export.folder import export_model
from qkv.models.saved.folder import save_model
from qkv.search.base import Constraints, SearchConfig
from qkv.search.beam import BeamConfig
from qkv.search.hypothesis import Hypothesis
from qkv.translate.export_check import ExportCheck
from qkv.translate.translator import Translator
from tests.support.exported import decided_model, random_sources

SEARCH = BeamConfig(max_factor=1.0, max_extra=5)
TEXTS = [" ".join(f"w{i - 5:03}" for i in ids[:-1]) for ids in random_sources(40, seed=5)]


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many sources each batch of the engine torch had."""
    sizes: list[int] = []
    decode = TorchEngine.decode

    def count(self: TorchEngine, sources: list[list[int]], request: DecodeRequest) -> list[list[Hypothesis]]:
        sizes.append(len(sources))
        return decode(self, sources, request)

    monkeypatch.setattr(TorchEngine, "decode", count)
    return sizes


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """CTranslate2 stops when `size` hypotheses have ended, as it does by default."""
    monkeypatch.setattr(patience, "LONG", 1.0)
    monkeypatch.setattr(ctranslate2_engine, "settled", lambda *_: True)


def test_the_fast_engine_stays_where_it_is_not_worse(counted: list[int]) -> None:
    """A few sources are decoded twice, and only once."""
    translator = Translator(decided_model(), search=SEARCH)
    for _ in range(2):
        translator.translate(TEXTS)
    assert [each.text for each in translator.stream(TEXTS)]
    assert counted == [COUNT]


@pytest.mark.parametrize("search", [SEARCH.model_copy(update={"stop": stop}) for stop in ("enough", "exact")])
def test_what_is_equal_by_its_rule_is_not_compared(counted: list[int], search: SearchConfig) -> None:
    Translator(decided_model(), search=search).translate(TEXTS)
    assert counted == []


def test_each_search_is_compared(counted: list[int]) -> None:
    """As in qkv tune: an engine that is no worse at one search may be worse at the next."""
    translator = Translator(decided_model(), search=SEARCH)
    translator.translate(TEXTS)
    translator.with_search(SEARCH.model_copy(update={"size": 3})).translate(TEXTS)
    assert counted == [COUNT, COUNT]


def test_a_comparison_that_was_interrupted_is_made_again(counted: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    translator = Translator(decided_model(), search=SEARCH)
    with monkeypatch.context() as interrupted:
        interrupted.setattr(TorchEngine, "decode", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            translator.translate(TEXTS)
    translator.translate(TEXTS)
    assert counted == [COUNT]


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.usefixtures("impatient")
def test_torch_is_used_where_the_fast_engine_is_worse() -> None:
    saved = decided_model()
    translator = Translator(saved, search=SEARCH)
    with pytest.warns(
        UserWarning, match=r"^the slower engine torch is used, because .* a mean score of -.*, and torch -"
    ):
        found = translator.translate(TEXTS)
    assert found == Translator(saved, "torch", SEARCH).translate(TEXTS)
    assert [each.text for each in translator.translate(TEXTS[:3])] == [each.text for each in found[:3]]


@pytest.mark.usefixtures("impatient")
def test_so_it_is_in_a_stream() -> None:
    saved = decided_model()
    with pytest.warns(UserWarning, match="^the slower engine torch is used"):
        found = list(Translator(saved, search=SEARCH).stream(TEXTS))
    assert found == Translator(saved, "torch", SEARCH).translate(TEXTS)


@pytest.mark.usefixtures("impatient")
def test_an_engine_that_was_asked_for_is_used_with_a_warning() -> None:
    translator = Translator(decided_model(), "ctranslate2", SEARCH)
    with pytest.warns(UserWarning, match=r"ctranslate2 is worse here: .*; use the engine torch, or search.stop=exact"):
        translator.translate(TEXTS)


def test_an_export_is_compared(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Nothing is said of one that is not worse."""
    save_model(tmp_path / "model", decided_model())
    said = StringIO()
    check = ExportCheck("ctranslate2", None, TEXTS, PlainReporter(said))
    export_model(tmp_path / "model", "ctranslate2", tmp_path / "fast", check=check)
    assert said.getvalue() == ""
    request.getfixturevalue("impatient")
    export_model(tmp_path / "model", "ctranslate2", tmp_path / "fast", check=check)
    (sentence,) = said.getvalue().splitlines()
    assert sentence.startswith(f"{tmp_path / 'fast'}: its beam search is worse than torch's (a mean score of -")
    assert sentence.endswith("; decode with search.stop=exact")


def test_the_mean_is_that_of_the_best_outputs() -> None:
    saved = decided_model()
    engine, sources = TorchEngine([saved.model]), random_sources(3)
    request = DecodeRequest(SEARCH, 2, [Constraints()], attention=True)
    scores = mean_scores(engine, engine, sources, request)
    best = [own[0].score for own in engine.decode(sources, DecodeRequest(SEARCH, 1, [Constraints()] * 3))]
    assert scores.theirs == scores.ours == pytest.approx(sum(best) / 3)
    assert mean_scores(engine, engine, [], request) == MeanScores(0, 0)


def test_a_rounding_error_is_not_worse() -> None:
    assert not MeanScores(-0.1, -0.1).worse
    assert not MeanScores(-0.1005, -0.1).worse
    assert MeanScores(-0.102, -0.1).worse
    assert not MeanScores(-0.09, -0.1).worse


def test_sources_of_all_lengths_are_taken() -> None:
    lengths = [len(ids) for ids in some_of([[7] * length for length in range(100)])]
    assert lengths[0] == 1
    assert lengths == sorted(lengths)
    assert COUNT // 2 < len(lengths) <= COUNT
    assert TOKENS / 2 < sum(lengths) <= TOKENS
    assert some_of([[7], [], [8, 9]]) == [[7], [8, 9]]
    assert some_of([[7] * 1000]) == []

"""An autoregressive model chooses among the outputs of one that writes all tokens at once."""

import pickle
from pathlib import Path
from typing import Any

import pytest

from qkv.core.errors import UsageError
from qkv.core.progress import SilentReporter
from qkv.models.saved.folder import SavedConfig, SavedModel, save_model
from qkv.search.refinement.search import RefineConfig
from qkv.text import TextConfig, WhitespaceConfig
from qkv.translate.jobs.line_work import LineWork
from qkv.translate.output import plain
from qkv.translate.texts import DecodeOptions, SourceText
from qkv.translate.translator import Translator
from tests.support.parallel import decode, parallel_model, refining
from tests.support.small import small_config
from tests.support.speaker import assert_same, save_speaker, sentences, speaker, torch_translator

SETTINGS = [("nat", {"length_beam": 5}), ("mask_predict", {"length_beam": 4, "passes": 3}), ("ctc", {"beam": 6})]
every_setting = pytest.mark.parametrize(("kind", "settings"), SETTINGS)


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_speaker(tmp_path_factory.mktemp("teacher") / "model", 8, sharpness=2)


def writer(kind: str, **search: Any) -> Translator:
    return torch_translator(speaker(4, 2, decoder=kind), search=refining(**search))


@every_setting
def test_the_output_with_the_highest_score_of_the_other_model_wins(
    kind: str, settings: dict[str, Any], teacher: Path
) -> None:
    """Scored one by one by `Translator.score`, as any output can be."""
    given, most = sentences(12), max(settings.get("length_beam", 1), settings.get("beam", 1))
    by_itself = writer(kind, **settings).translate(given, nbest=most)
    chosen = writer(kind, **settings, rescore=teacher).translate(given, nbest=most)
    judge, others = torch_translator(teacher), 0
    for source, own, best in zip(given, by_itself, chosen, strict=True):
        texts = [own.text, *(each.text for each in own.alternatives)]
        scores = [one.per_token for one in judge.score([(source, text) for text in texts])]
        ranked = sorted(zip(scores, texts, strict=True), reverse=True)
        found = [(best.score, best.text), *((each.score, each.text) for each in best.alternatives)]
        assert [text for _, text in found] == [text for _, text in ranked]
        assert [score for score, _ in found] == pytest.approx([score for score, _ in ranked], abs=1e-5)
        assert best.score == pytest.approx(sum(best.token_scores) / len(best.token_scores))
        others += best.text != own.text
    assert others > 2


@every_setting
def test_a_sentence_does_not_depend_on_its_batch(kind: str, settings: dict[str, Any], teacher: Path) -> None:
    together, given = writer(kind, **settings, rescore=teacher), sentences(15)
    assert_same(together.translate(given), [one for text in given for one in together.translate([text])])


def test_a_worker_process_has_it_too_and_a_job_knows_it(teacher: Path, tmp_path: Path) -> None:
    model = save_speaker(tmp_path / "model", 4, sharpness=2, decoder="nat")
    translator = torch_translator(model, search=RefineConfig(length_beam=4, rescore=teacher))
    setup = pickle.loads(pickle.dumps(translator.worker_setup(DecodeOptions())))
    given = sentences(6)
    assert_same(setup.open()([SourceText(text) for text in given]), translator.translate(given))

    def model_of_job() -> Any:
        return LineWork(translator, DecodeOptions(), plain, "lines", SilentReporter()).identity({})["model"]

    before = model_of_job()
    save_speaker(teacher, 9, sharpness=2)
    assert len(before) == 2
    assert before[0] == model_of_job()[0]
    assert before[1] != model_of_job()[1]
    save_speaker(teacher, 8, sharpness=2)


def test_the_limits_of_both_models_hold(tmp_path: Path) -> None:
    short = save_speaker(tmp_path / "short", 3, positions={"kind": "learned", "max_length": 4})
    translator = writer("nat", length_beam=3, length_factor=3.0, rescore=short, max_extra=99)
    found = translator.translate(["aa bb cc", "ab"])
    assert [len(one.text.split()) <= 3 for one in found] == [True, True]
    assert all(len(one.token_scores) <= 4 for one in found)
    assert translator.translate(["aa bb cc ab ac"])[0].parts > 1


def test_an_output_that_was_cut_is_not_asked_for_its_end(teacher: Path) -> None:
    (cut,) = writer("ctc", beam=4, max_length=1, rescore=teacher).translate(["aa bb cc aa bb"])
    assert cut.truncated
    assert len(cut.token_scores) == 1


def test_what_makes_no_sense_is_refused_in_one_sentence(teacher: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="rescore chooses among several outputs; add length_beam"):
        RefineConfig(rescore=teacher)
    text = TextConfig(shared=WhitespaceConfig())
    tokenizers = text.train(lambda: ["other words than those"], lambda: [])
    config = SavedConfig(model=small_config(), text=text)
    save_model(tmp_path / "other", SavedModel(config.model.build(tokenizers), tokenizers, config))
    save_speaker(tmp_path / "ctc", decoder="ctc")
    for folder, words in (("other", "has another vocabulary than the model"), ("ctc", "is of the kind ctc, which")):
        with pytest.raises(UsageError, match=words) as error:
            writer("nat", length_beam=2, rescore=tmp_path / folder).translate(["aa"])
        assert "\n" not in str(error.value)
    fast = Translator(speaker(4, decoder="nat"), "onnxruntime", RefineConfig(length_beam=2, rescore=teacher))
    with pytest.raises(UsageError, match="the engine onnxruntime cannot do this"):
        fast.translate(["aa"])


def test_a_search_without_the_model_that_it_names_says_so(teacher: Path) -> None:
    with pytest.raises(UsageError, match="rescore needs a Translator"):
        decode(parallel_model("nat"), [[7, 8]], length_beam=2, rescore=teacher)

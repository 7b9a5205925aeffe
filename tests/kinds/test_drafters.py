"""Every kind of drafter: greedy search with it is greedy search; it is written, read, carried, and documented."""

import pickle
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from qkv.config import Config, dump_config, load_config
from qkv.core.errors import UsageError
from qkv.core.files import verify_folder
from qkv.models.draft_heads import draft_heads
from qkv.models.saved.folder import SavedConfig, SavedModel, load_model, save_model
from qkv.search.beam import BeamConfig
from qkv.search.greedy import GreedyConfig
from qkv.search.speculative.attach import attach_drafter
from qkv.search.speculative.drafters import AnyDrafter, DrafterConfig, drafters
from qkv.search.speculative.drafters.jacobi import JacobiConfig
from qkv.search.speculative.drafters.other_model import ModelDrafterConfig
from qkv.search.speculative.drafters.own import OwnConfig
from qkv.search.speculative.drafting import DRAFTER
from qkv.text import TextConfig, TokenizerPair, WhitespaceConfig
from qkv.translate.texts import DecodeOptions, SourceText
from qkv.translate.translator import Translator
from tests.support.parallel import PARALLEL
from tests.support.speaker import SHORT, assert_same, save_speaker, sentences, speaker, torch_translator

DOCS = Path(__file__).parents[2] / "docs" / "speculative.md"
SHARP = 2.0
every_kind = pytest.mark.parametrize("kind", drafters.names())


class Holder(Config):
    """A drafter as a field, to be written and read."""

    draft: AnyDrafter = JacobiConfig()
    """The drafter."""


@pytest.fixture(scope="module")
def parallel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of one non-autoregressive model of each kind, with the vocabulary of the speakers."""
    folder = tmp_path_factory.mktemp("parallel")
    for kind in PARALLEL:
        save_speaker(folder / kind, sharpness=SHARP, decoder=kind)
    return folder


def settings(kind: str, parallel: Path) -> list[tuple[SavedModel, DrafterConfig]]:
    """Models that the kind can draft for, and how it does."""
    if kind == "own":
        return [(speaker(3, SHARP, draft=head), OwnConfig(adaptive=False)) for head in draft_heads.names()]
    if kind == "model":
        model = speaker(3, SHARP)
        return [(model, ModelDrafterConfig(path=parallel / name, adaptive=False)) for name in PARALLEL]
    return [(speaker(3, SHARP), drafters[kind](adaptive=adaptive)) for adaptive in (False, True)]


@every_kind
def test_greedy_search_with_it_is_greedy_search(kind: str, parallel: Path) -> None:
    given = sentences(40)
    for saved, config in settings(kind, parallel):
        wanted = torch_translator(saved, draft=None).translate(given)
        for batch_tokens in (40, 1000):
            found = torch_translator(saved, draft=config, batch_tokens=batch_tokens).translate(given)
            assert_same(found, wanted)
            assert all(one.passes and one.passes <= len(one.token_scores) for one in found)


@every_kind
def test_alignments_are_those_of_greedy_search(kind: str, parallel: Path) -> None:
    given = sentences(6)
    saved, config = settings(kind, parallel)[0]
    found, wanted = (torch_translator(saved, draft=draft).translate(given, alignment=True) for draft in (config, None))
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.passes
        torch.testing.assert_close(torch.tensor(ours.alignment), torch.tensor(theirs.alignment), atol=1e-5, rtol=0)


@every_kind
def test_it_is_written_and_read(kind: str, tmp_path: Path) -> None:
    needed: dict[str, Any] = {"path": "somewhere"} if kind == "model" else {}
    holder = Holder(draft={"kind": kind, "block": 3, **needed})
    (tmp_path / "draft.yaml").write_text(dump_config(holder))
    assert load_config(Holder, tmp_path / "draft.yaml") == holder


@every_kind
def test_it_is_documented(kind: str) -> None:
    assert f"`{kind}`" in DOCS.read_text(encoding="utf-8")


def test_another_search_has_the_drafter_that_is_for_it() -> None:
    """Whatever the first translator has decoded before."""
    saved, given = speaker(3, SHARP, draft={"kind": "source", "upsample": 1}), sentences(4)
    beam = torch_translator(saved, search=BeamConfig(size=2, **SHORT))
    assert not any(one.passes for one in beam.translate(given))
    greedy = beam.with_search(GreedyConfig(**SHORT))
    assert all(one.passes for one in greedy.translate(given))
    assert not any(one.passes for one in greedy.with_search(BeamConfig(size=2, **SHORT)).translate(given))
    told = torch_translator(saved, draft="jacobi")
    assert all(one.passes for one in told.translate(given))
    with pytest.raises(UsageError, match="drafts speed up the search greedy, not beam"):
        told.with_search(BeamConfig(size=2, **SHORT)).translate(given)


def test_a_model_s_own_head_is_chosen_by_itself(tmp_path: Path) -> None:
    """Kept in the folder with the model; for greedy search alone, and not if it is unwanted."""
    saved = speaker(3, SHARP, draft={"kind": "source", "upsample": 1})
    save_model(tmp_path / "model", saved)
    loaded = load_model(tmp_path / "model")
    assert loaded.config == saved.config
    assert [name for name, _ in loaded.model.named_parameters()] == [name for name, _ in saved.model.named_parameters()]
    given = sentences(5)
    search = GreedyConfig(**SHORT)
    assert all(one.passes for one in Translator(tmp_path / "model", search=search).translate(given))
    assert not any(one.passes for one in Translator(tmp_path / "model", search=search, draft="none").translate(given))
    assert not any(one.passes for one in Translator(tmp_path / "model").translate(given))
    by_other = Translator(tmp_path / "model", "ctranslate2", search)
    assert not any(one.passes for one in by_other.translate(given))


def test_a_folder_carries_its_drafter(tmp_path: Path, parallel: Path) -> None:
    model = save_speaker(tmp_path / "model", 3, sharpness=SHARP)
    wanted = torch_translator(model).translate(sentences(9))
    assert not any(one.passes for one in wanted)
    before = verify_folder(model)
    assert attach_drafter(model, parallel / "ctc", tmp_path / "both") == tmp_path / "both"
    assert verify_folder(model) == before
    found = torch_translator(tmp_path / "both").translate(sentences(9))
    assert_same(found, wanted)
    assert all(one.passes for one in found)
    assert attach_drafter(model, parallel / "nat") == model
    manifest = verify_folder(model)
    assert manifest["what"] == "model"
    assert f"{DRAFTER}/model.safetensors" in manifest["files"]
    # Another one takes its place, and a model that carries one can itself be attached without it.
    assert attach_drafter(model, parallel / "ctc") == model
    assert "ctc" in (model / DRAFTER / "config.yaml").read_text()
    assert all(one.passes for one in torch_translator(model).translate(sentences(9)))


def test_a_worker_process_drafts_too(tmp_path: Path, parallel: Path) -> None:
    """What it is sent says how."""
    model = save_speaker(tmp_path / "model", 3, sharpness=SHARP)
    given, options = [SourceText(text) for text in sentences(5)], DecodeOptions()
    translator = torch_translator(model, draft=parallel / "ctc")
    setup = pickle.loads(pickle.dumps(translator.worker_setup(options)))
    found = setup.open()(given)
    assert all(one.passes for one in found)
    assert_same(found, translator.translate([source.text for source in given]))


def test_what_does_not_go_together_is_refused_in_one_sentence(tmp_path: Path, parallel: Path) -> None:
    model = save_speaker(tmp_path / "model", 3)
    other = save_speaker(tmp_path / "other", 4)
    with pytest.raises(UsageError, match="drafts speed up the search greedy, not beam"):
        Translator(model, draft="jacobi").translate(["aa"])
    with pytest.raises(UsageError, match="verified by one model, not by an ensemble"):
        Translator([model, other], search=GreedyConfig(), draft="jacobi").translate(["aa"])
    with pytest.raises(UsageError, match="kind transformer, so it would draft token by token"):
        Translator(model, search=GreedyConfig(), draft=other).translate(["aa"])
    with pytest.raises(UsageError, match="has no draft head"):
        Translator(model, search=GreedyConfig(), draft="own").translate(["aa"])
    with pytest.raises(UsageError, match="the engine ctranslate2 takes no drafts"):
        Translator(model, "ctranslate2", GreedyConfig(), draft="jacobi")
    with pytest.raises(UsageError, match="exists already"):
        attach_drafter(model, parallel / "ctc", other)


@pytest.mark.parametrize("kind", PARALLEL)
def test_sources_that_the_drafter_cannot_read_are_decoded_without_it(kind: str, tmp_path: Path) -> None:
    """What is said never depends on the drafter, nor whether anything is said."""
    short = speaker(4, decoder=kind, positions={"kind": "learned", "max_length": 9})
    save_model(tmp_path / "short", short)
    given = ["aa bb", "aa bb cc aa bb cc aa bb cc", "cc bb aa", "bb " * 30]
    wanted = torch_translator(speaker(3, SHARP), draft=None).translate(given)
    drafter = ModelDrafterConfig(path=tmp_path / "short", adaptive=False)
    assert_same(torch_translator(speaker(3, SHARP), draft=drafter).translate(given), wanted)


def test_a_drafter_with_another_vocabulary_is_refused(tmp_path: Path, parallel: Path) -> None:
    saved = speaker(3)
    text = TextConfig(shared=WhitespaceConfig())
    tokenizers = text.train(lambda: ["other words than those"], lambda: [])
    config = SavedConfig(model=saved.config.model, text=text)
    save_model(tmp_path / "model", SavedModel(config.model.build(tokenizers).eval(), tokenizers, config))
    with pytest.raises(UsageError, match="has another vocabulary than the model it shall draft for"):
        Translator(tmp_path / "model", search=GreedyConfig(), draft=parallel / "ctc").translate(["words"])
    with pytest.raises(UsageError, match="has another vocabulary"):
        attach_drafter(tmp_path / "model", parallel / "ctc")


def test_the_input_is_no_draft_without_a_shared_vocabulary() -> None:
    saved = speaker(3)
    apart = TokenizerPair(saved.tokenizers.src, copy(saved.tokenizers.tgt))
    with pytest.raises(UsageError, match="the drafter input needs one vocabulary for both sides"):
        drafters["input"]().build(replace(saved, tokenizers=apart))

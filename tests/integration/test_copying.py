"""A model that copies, through every search: words that are in no vocabulary come out as they went in."""

import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from qkv import Translator
from qkv.core.errors import UsageError
from qkv.export.ctranslate2 import ctranslate2_obstacles
from qkv.export.huggingface import huggingface_obstacles
from qkv.export.onnx import onnx_obstacles
from qkv.models.saved.folder import SavedConfig, SavedModel, load_model, save_model
from qkv.search.speculative.drafters.input_guided import InputConfig
from qkv.search.speculative.drafters.jacobi import JacobiConfig
from tests.support.small import small_config, small_text, stir

ROOT = Path(__file__).parents[2]
TEXTS = ["aa Zoe ab", "Bo", "ba Al Zoe Al cc", "ab"]
SEARCHES: list[Any] = [
    "greedy",
    {"kind": "beam", "size": 3, "coverage_penalty": 0.2},
    {"kind": "sample", "samples": 3, "seed": 4},
    {"kind": "mbr", "samples": 4, "temperature": 0.7},
]


@cache
def saved_model(kind: str = "copynet", seed: int = 1) -> SavedModel:
    text, tokenizers = small_text()
    config = small_config(head={"kind": kind})
    pair = config.tokenizers(tokenizers)
    torch.manual_seed(seed)
    model = config.build(pair)
    stir(model)
    with torch.no_grad():
        for name, weight in model.head.named_parameters():
            # Copies must be likely in a model that has learned nothing.
            weight.mul_(3.0 if "key" in name else 1.0)
    return SavedModel(model.eval(), pair, SavedConfig(model=config, text=text))


def translator(*models: Any, **settings: Any) -> Translator:
    return Translator(list(models) or saved_model(), engine="torch", **{"draft": None, **settings})


@pytest.mark.parametrize("search", SEARCHES)
def test_words_of_no_vocabulary_are_copied_in_any_batch(search: Any) -> None:
    found = translator(search=search).translate(TEXTS, token_scores=True)
    unseen = [word for one in found for word in one.text.split() if word in ("Zoe", "Bo", "Al")]
    assert unseen
    for text, one in zip(TEXTS, found, strict=True):
        assert {word for word in one.text.split() if word[0].isupper()} <= set(text.split())
        alone = translator(search=search).translate(text)
        assert (alone.text, alone.tokens) == (one.text, one.tokens)
        assert one.src_tokens == [*text.split(), "</s>"]
        if not one.out_cut and search != SEARCHES[-1]:
            scored = translator().score((text, one.text))
            assert scored.tokens == one.tokens
            assert scored.token_scores == pytest.approx(one.token_scores, abs=1e-4)


@pytest.mark.parametrize("kind", ["copynet", "pointer_generator"])
@pytest.mark.parametrize("draft", [InputConfig(), JacobiConfig()])
def test_speculative_decoding_is_greedy(kind: str, draft: Any) -> None:
    saved = saved_model(kind)
    plain, drafted = (translator(saved, search="greedy", draft=each).translate(TEXTS) for each in (None, draft))
    assert [one.tokens for one in drafted] == [one.tokens for one in plain]
    assert all(one.passes is not None for one in drafted)


def test_required_words_prefixes_and_ensembles() -> None:
    beam = {"kind": "beam", "size": 4}
    found = translator(search=beam).translate(TEXTS[:3], required=[["Zoe"], ["Bo aa"], ["Al Zoe"]])
    for one, words in zip(found, ["Zoe", "Bo aa", "Al Zoe"], strict=True):
        assert words in one.text
    assert translator(search=beam).translate("aa Zoe ab", prefixes="Zoe aa").text.startswith("Zoe aa")
    with pytest.raises(UsageError, match='does not know "Max"'):
        translator(search=beam).translate("aa Zoe ab", required=["Max"])
    both = [saved_model(), saved_model("pointer_generator", seed=2)]
    together = translator(*both).translate(TEXTS, nbest=2)
    assert all(one.score <= 0 for one in together)
    mean = [sum(torch.tensor(one.token_scores).exp().tolist()) for one in translator(*both).score([("Bo", "Bo")])]
    each = [sum(torch.tensor(translator(one).score(("Bo", "Bo")).token_scores).exp().tolist()) for one in both]
    assert mean[0] == pytest.approx(sum(each) / 2, abs=1e-5)


@pytest.mark.parametrize("kind", ["copynet", "pointer_generator"])
def test_copied_tokens_say_where_they_come_from(kind: str) -> None:
    saved = saved_model(kind)
    for one in translator(saved, search={"kind": "beam", "size": 3}).translate(TEXTS, nbest=2, copies=True):
        for each in (one, *one.alternatives):
            assert each.copied is not None
            for token, copied in zip(each.tokens, each.copied, strict=True):
                assert copied is not None or not token[0].isupper()
                if copied is not None:
                    assert each.src_tokens[copied.src] == token
                    assert 0.5 < copied.share <= 1
                    assert copied.share == pytest.approx(1, abs=1e-4) or not token[0].isupper()
    assert translator(saved, search="greedy").translate(TEXTS[0]).copied is None


def test_a_saved_model_copies(tmp_path: Path) -> None:
    save_model(tmp_path / "model", saved_model())
    assert type(load_model(tmp_path / "model").tokenizers) is type(saved_model().tokenizers)
    found = translator(tmp_path / "model", search="greedy").translate(TEXTS)
    assert [one.text for one in found] == [one.text for one in translator(search="greedy").translate(TEXTS)]


def test_what_does_not_go_together() -> None:
    text, tokenizers = small_text()
    plain = small_config()
    other = SavedModel(plain.build(tokenizers).eval(), tokenizers, SavedConfig(model=plain, text=text))
    with pytest.raises(UsageError, match="an ensemble is of models that copy"):
        translator(saved_model(), other).translate("aa")
    with pytest.raises(UsageError, match="copies nothing"):
        translator(other).translate("aa", copies=True)
    with pytest.raises(UsageError, match="leave out overlap"):
        translator(overlap=True).translate("aa")
    for obstacles in (ctranslate2_obstacles, huggingface_obstacles, onnx_obstacles):
        assert any("model.head.kind copynet" in reason for reason in obstacles(saved_model().config))


Pairs = list[tuple[list[str], list[str]]]


def make_data(program: str, folder: Path, *arguments: str) -> dict[str, Pairs]:
    subprocess.run([sys.executable, str(ROOT / "examples" / program), str(folder), *arguments], check=True)
    return read_data(folder)


def read_data(folder: Path) -> dict[str, Pairs]:
    parts = {}
    for path in folder.glob("*.tsv"):
        lines = [line.split("\t") for line in path.read_text().splitlines()]
        parts[path.stem] = [(src.split(), tgt.split()) for src, tgt in lines]
    return parts


def test_the_words_of_the_test_strings_are_not_in_train(tmp_path: Path) -> None:
    parts = make_data("make_copy_data.py", tmp_path, "--pairs", "60", "--test", "20")
    words = {name: {word for src, _ in part for word in src if len(word) == 5} for name, part in parts.items()}
    assert words["test"]
    assert not words["test"] & (words["train"] | words["dev"])
    assert all(src == tgt for part in parts.values() for src, tgt in part)


def test_rules_copy_their_variables(tmp_path: Path) -> None:
    parts = make_data("make_rule_data.py", tmp_path, "--rules", "2", "--pairs", "3", "--test", "2")
    assert {name: len(part) for name, part in parts.items() if name != "dev"} == {
        "train": 30,
        **{f"test-{kind}": 4 for kind in ("x-0", "x-x", "x-xx", "xy-x", "xy-xy")},
    }
    filled = {
        name: [([word for word in side if word[0] != "c" or len(word) == 5] for side in pair) for pair in part]
        for name, part in parts.items()
    }
    for name, copies in {"test-x-0": 0, "test-x-x": 1, "test-x-xx": 2, "test-xy-xy": 1}.items():
        assert all(tgt == copies * src for src, tgt in filled[name])
    for src, tgt in filled["test-xy-x"]:
        assert tgt
        assert src[: len(tgt)] == tgt
        assert len(src) > len(tgt)


def test_names_and_numbers_of_both_sides_become_new_words(tmp_path: Path) -> None:
    corpus, made, program = tmp_path / "corpus", tmp_path / "made", ROOT / "examples" / "make_name_data.py"
    corpus.mkdir()
    sides = {
        "spa": ["Tom paga 30 euros a Ana y a Tom.", "No, Pedro no va.", "la casa no", "No sé."],
        "eng": ["Tom pays 30 euros to Anne and to Tom.", "No, Peter is not going.", "the house no", "No idea."],
    }
    for part in ("train", "dev", "test"):
        for side, lines in sides.items():
            (corpus / f"{part}.{side}").write_text("".join(line + "\n" for line in lines))
    subprocess.run([sys.executable, str(program), str(corpus), str(made)], check=True)
    parts, new = read_data(made), set()
    assert set(parts) == {"train", "dev", "test"}
    for ((src, tgt),) in parts.values():
        tom, number = src[0], src[2]
        assert src == [tom, "paga", number, "euros", "a", "ana", "y", "a", tom, "."]
        assert tgt == [tom, "pays", number, "euros", "to", "anne", "and", "to", tom, "."]
        assert tom.istitle()
        assert number.isdecimal()
        new |= {tom, number}
    assert len(new) == 6
    for part, ((src, tgt),) in parts.items():
        files = {ending: (made / f"{part}.{ending}").read_text() for ending in ("spa", "eng", "align")}
        assert files == {"spa": " ".join(src) + "\n", "eng": " ".join(tgt) + "\n", "align": "2-2\n"}

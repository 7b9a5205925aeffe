"""A model written for CTranslate2 is the same model; what it cannot hold is refused by name."""

import json
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from qkv.core.errors import QkvError, UsageError
from qkv.core.files import sha256_of, verify_folder
from qkv.engines.agreement import NOISE, agreement
from qkv.engines.ctranslate2_engine import CTranslate2Engine
from qkv.export.ctranslate2 import QUANTIZATIONS, ctranslate2_obstacles, export_ctranslate2, vocabulary
from qkv.export.int8 import USE_MKL, sums_are_exact
from qkv.layers.feed_forward import feed_forwards
from qkv.layers.positions import positions
from qkv.layers.residual import residuals
from qkv.models.saved.folder import SavedConfig, SavedModel, load_model, save_model
from qkv.models.saved.weights import named_weights
from qkv.models.transformer.config import TransformerConfig
from qkv.text import SPECIAL, BytePairConfig, SentencePieceConfig, Tokenizer, load_tokenizers
from qkv.text.normalize import NormalizeConfig
from qkv.text.whitespace import WhitespaceTokenizer
from qkv.translate.texts import DecodeOptions
from qkv.translate.translator import Translator
from tests.support.attentions import UNLIKE_THE_PAPER
from tests.support.exported import decided_model, padded_ids, random_sources
from tests.support.small import decode

KINDS: list[dict[str, Any]] = [
    {},
    {"residual": {"kind": "pre"}},
    {"positions": {"kind": "learned", "max_length": 50}},
    {"positions": {"kind": "rope"}},
    {"positions": {"kind": "rope", "base": 100.0}, "residual": {"kind": "pre"}, "num_heads": 4},
    {"feed_forward": {"kind": "gelu"}},
    {"feed_forward": {"kind": "swiglu"}, "residual": {"kind": "pre"}},
    {"share_embeddings": "target"},
    {"share_embeddings": "none"},
    {"share_layers": True},
    {"encoder_layers": 3, "decoder_layers": 1, "num_heads": 4},
    {"tgt_words": 57},
    {"tgt_words": 57, "share_embeddings": "none", "residual": {"kind": "pre"}},
]
BOUNDS = {
    "float32": 1e-5,
    "float16": 0.01,
    "int16": 0.02,
    "bfloat16": 0.05,
    "int8": 0.12,
    "int8_float32": 0.12,
    "int8_float16": 0.12,
    "int8_bfloat16": 0.12,
}
"""How much log-probabilities may change on average; the largest change may be eight times that."""
SATURATES = not sums_are_exact() and os.environ.get(USE_MKL) == "0"
"""Whether the user has chosen oneDNN on a processor where it cuts off sums of int8: see `export/int8.py`."""


def random_targets(saved: SavedModel, count: int) -> list[list[int]]:
    source = random.Random(1)
    return [
        [source.randrange(5, len(saved.tokenizers.tgt)) for _ in range(source.randint(0, 14))] for _ in range(count)
    ]


def their_scores(folder: Path, saved: SavedModel, src: Sequence[list[int]], tgt: Sequence[list[int]]) -> list[Any]:
    names = vocabulary(saved.tokenizers.src), vocabulary(saved.tokenizers.tgt)
    sides = ([[own[i] for i in ids] for ids in side] for own, side in zip(names, (src, tgt), strict=True))
    # With the type of numbers that the engine takes; by itself CTranslate2 may turn int16 into int8.
    translator = CTranslate2Engine(folder, 1).translator
    return [result.log_probs for result in translator.score_batch(*sides, max_input_length=0)]


@torch.no_grad()
def our_scores(saved: SavedModel, src: Sequence[list[int]], tgt: Sequence[list[int]]) -> list[list[float]]:
    """log p of each target token and END, over what may be output."""
    ids, keep = padded_ids(src)
    tgt_in, _ = padded_ids([[SPECIAL.bos, *own] for own in tgt])
    log_probs = saved.model.head.log_probs(decode(saved.model, ids, keep, tgt_in))
    log_probs[..., [SPECIAL.pad, SPECIAL.bos, SPECIAL.mask]] = -torch.inf
    log_probs = log_probs.log_softmax(dim=-1)
    ends = [[*own, SPECIAL.eos] for own in tgt]
    return [log_probs[row, range(len(own)), own].tolist() for row, own in enumerate(ends)]


def differences(ours: list[list[float]], theirs: list[list[float]]) -> list[float]:
    return [abs(a - b) for x, y in zip(ours, theirs, strict=True) for a, b in zip(x, y, strict=True)]


def largest_difference(ours: list[list[float]], theirs: list[list[float]]) -> float:
    return max(differences(ours, theirs))


@pytest.mark.parametrize("changes", KINDS, ids=str)
def test_every_kind_has_the_same_log_probabilities(changes: dict[str, Any], tmp_path: Path) -> None:
    saved = decided_model(**changes)
    src, tgt = random_sources(30), random_targets(saved, 30)
    export_ctranslate2(saved, tmp_path / "fast")
    assert largest_difference(our_scores(saved, src, tgt), their_scores(tmp_path / "fast", saved, src, tgt)) < 1e-4


def test_rotary_positions_run_from_an_export_alone(tmp_path: Path) -> None:
    """The engine of a model that was published with them does not change by itself."""
    saved = decided_model(positions={"kind": "rope"})
    texts = [saved.tokenizers.src.decode(ids) for ids in random_sources(8)]
    ours = Translator(saved, search="greedy")
    assert ours.decoder(DecodeOptions()).engine.name == "torch"
    with pytest.raises(UsageError, match="from an export alone; write one with qkv export"):
        Translator(saved, engine="ctranslate2", search="greedy").translate(texts)
    export_ctranslate2(saved, tmp_path / "fast")
    theirs = Translator(tmp_path / "fast", search="greedy")
    assert theirs.decoder(DecodeOptions()).engine.name == "ctranslate2"
    assert [found.text for found in theirs.translate(texts)] == [found.text for found in ours.translate(texts)]


def test_every_registered_kind_is_exported_or_refused() -> None:
    """A new kind must be looked at: it is refused until the export knows it."""
    for part, kinds in (("residual", residuals), ("positions", positions), ("feed_forward", feed_forwards)):
        covered = {changes[part]["kind"] for changes in KINDS if part in changes}
        for kind in kinds.names():
            config = config_of(TransformerConfig.model_validate({part: {"kind": kind}}))
            default = TransformerConfig().model_dump()[part]["kind"]
            assert ctranslate2_obstacles(config) or kind in covered | {default}, (
                f"{part} {kind} is exported without a test"
            )


@pytest.mark.parametrize("quantization", QUANTIZATIONS)
def test_every_quantization_is_close(quantization: str, tmp_path: Path) -> None:
    """Or it is refused as noise, which happens only where sums saturate."""
    saved = decided_model()
    src, tgt = random_sources(20), random_targets(saved, 20)
    export_ctranslate2(saved, tmp_path / "fast", quantization)
    compared = agreement(saved, CTranslate2Engine(tmp_path / "fast", 1), random_sources(100))
    if compared.cost >= NOISE:
        assert SATURATES
        assert quantization.startswith("int8")
        return
    found = differences(our_scores(saved, src, tgt), their_scores(tmp_path / "fast", saved, src, tgt))
    assert sum(found) / len(found) < BOUNDS[quantization]
    assert max(found) < 8 * BOUNDS[quantization]
    assert json.loads((tmp_path / "fast" / "manifest.json").read_text())["quantization"] == quantization


def test_the_epsilon_of_the_norms_is_that_of_the_model(tmp_path: Path) -> None:
    saved = decided_model()
    src, tgt = random_sources(20), random_targets(saved, 20)
    before = our_scores(saved, src, tgt)
    norms = [module for module in saved.model.modules() if isinstance(module, torch.nn.LayerNorm)]
    for norm in norms:
        norm.eps = 0.1
    export_ctranslate2(saved, tmp_path / "fast")
    ours = our_scores(saved, src, tgt)
    assert largest_difference(ours, before) > 1e-2
    assert largest_difference(ours, their_scores(tmp_path / "fast", saved, src, tgt)) < 1e-4
    norms[0].eps = 0.2
    with pytest.raises(UsageError, match=r"its norms have different epsilons \(0\.1, 0\.2\)"):
        export_ctranslate2(saved, tmp_path / "mixed")
    assert not (tmp_path / "mixed").exists()


def test_the_model_is_left_as_it_was(tmp_path: Path) -> None:
    """Quantization scales the tensors that it is given in place: they must not be the model's."""
    saved = decided_model()
    save_model(tmp_path / "model", saved)
    files = {path: sha256_of(path) for path in (tmp_path / "model").rglob("*") if path.is_file()}
    weights = {name: weight.clone() for name, weight in named_weights(saved.model).items()}
    loaded = load_model(tmp_path / "model")
    for quantization in (None, "int8", "int16", "float16"):
        export_ctranslate2(loaded, tmp_path / "fast", quantization)
    assert {path: sha256_of(path) for path in (tmp_path / "model").rglob("*") if path.is_file()} == files
    after = named_weights(loaded.model)
    assert after.keys() == weights.keys()
    assert all(torch.equal(after[name], weight) for name, weight in weights.items())


def test_the_folder_has_a_manifest_and_has_all_that_the_model_needs(tmp_path: Path) -> None:
    saved = decided_model(tgt_words=57)
    export_ctranslate2(saved, tmp_path / "fast", "int8")
    assert verify_folder(tmp_path / "fast")["what"] == "ctranslate2"
    pair = load_tokenizers(tmp_path / "fast" / "tokenizer")
    assert (len(pair.src), len(pair.tgt)) == (45, 62)
    export_ctranslate2(saved, tmp_path / "fast")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fast"]


def test_an_export_that_fails_leaves_the_earlier_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = decided_model()
    export_ctranslate2(saved, tmp_path / "fast")
    before = verify_folder(tmp_path / "fast")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(saved.config.text), "save", full)
    with pytest.raises(QkvError, match=r"No space left on device\); nothing there was changed"):
        export_ctranslate2(saved, tmp_path / "fast")
    assert verify_folder(tmp_path / "fast") == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fast"]


class WindowedModelConfig(TransformerConfig):
    attention: str = "full"


def config_of(model: TransformerConfig) -> SavedConfig:
    return SavedConfig.model_construct(model=model, text=decided_model().config.text)


@pytest.mark.parametrize("kind", positions.names())
def test_positions_that_have_no_form_there_are_refused_by_name(kind: str) -> None:
    reason = f"CTranslate2 has no form of model.positions.kind {kind}"
    assert ctranslate2_obstacles(config_of(TransformerConfig(positions={"kind": kind}))) == (
        [] if kind in ("sinusoidal", "learned", "rope") else [reason]
    )


def test_a_refusal_says_what_to_do_instead(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"t5; use it with --engine torch, or train one with .*kind=sinusoidal$"):
        export_ctranslate2(decided_model(positions={"kind": "t5"}), tmp_path / "out")
    with pytest.raises(UsageError, match=r"quantization int3 is unknown, choose one of [^;]*$"):
        export_ctranslate2(decided_model(), tmp_path / "out", "int3")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("setting", "name"), UNLIKE_THE_PAPER, ids=str)
def test_attention_that_has_no_form_there_is_refused_by_name(setting: dict[str, Any], name: str) -> None:
    places = ["encoder_attention", "decoder_attention", "cross_attention"]
    for place in places if setting["kind"] == "full" else places[:1]:
        reason = f"CTranslate2 has no form of model.{place}.{name}"
        assert ctranslate2_obstacles(config_of(TransformerConfig(**{place: setting}))) == [reason]


def test_random_positions_of_training_do_not_matter_to_an_export() -> None:
    assert ctranslate2_obstacles(config_of(TransformerConfig(position_offsets={"kind": "shift"}))) == []


def test_all_reasons_are_given_at_once(tmp_path: Path) -> None:
    config = config_of(WindowedModelConfig(attention="window", residual="rezero"))
    assert ctranslate2_obstacles(config) == [
        "CTranslate2 has no form of model.residual.kind rezero",
        "the export to CTranslate2 does not know model.attention",
    ]
    assert ctranslate2_obstacles(config_of(WindowedModelConfig())) == []
    saved = decided_model()
    with pytest.raises(UsageError, match=r"rezero; .*model\.attention; quantization int3 is unknown, choose"):
        export_ctranslate2(SavedModel(saved.model, saved.tokenizers, config), tmp_path / "fast", "int3")
    assert not list(tmp_path.iterdir())


def test_names_are_unique_and_in_the_order_of_the_ids() -> None:
    texts = ["<pad> <s> </s> <mask> a▁b ▁ a b é \x00 #"] * 3
    tokenizers: list[Tokenizer] = [
        BytePairConfig(vocab_size=300).train(texts),
        SentencePieceConfig(vocab_size=270).train(texts),
        WhitespaceTokenizer(["a", "a", "<pad>", "a#6", "</s>"], NormalizeConfig()),
    ]
    for tokenizer in tokenizers:
        names = vocabulary(tokenizer)
        assert len(set(names)) == len(names) == len(tokenizer)
        assert names[:5] == ["<pad>", "<unk>", "<s>", "</s>", "<mask>"]
    assert vocabulary(tokenizers[2])[5:] == ["a", "a#6", "<pad>#7", "a#6#8", "</s>#9"]

"""T5: spans of texts are learned, then pairs from the same weights; task prefixes; what it refuses."""

from pathlib import Path
from typing import Any

import pytest
import torch

from qkv.core.errors import ConfigError
from qkv.data.tasks.text_batch import collate_texts
from qkv.models.language.text_to_text import TextToTextConfig
from qkv.models.saved.folder import load_model
from qkv.objectives.build import objective_of
from qkv.objectives.language.spans import MaskedSpans, target_length
from qkv.objectives.teacher_forcing import ObjectiveConfig
from qkv.search.models import ModelSteps, PrefixSteps
from qkv.text import SPECIAL
from qkv.training.recipe import Recipe
from qkv.training.trainer import Trainer
from qkv.translate.translator import Translator
from tests.support.language import SENTENCES, texts_recipe, words
from tests.support.small import batch_of, stir

SIZES: dict[str, Any] = {"d_model": 32, "d_ff": 64, "num_heads": 4, "encoder_layers": 1, "decoder_layers": 1}


def sizes(**more: Any) -> dict[str, Any]:
    return {"kind": "text_to_text", "sentinels": 10, "dropout": 0.0, **SIZES, **more}


def recipe(folder: Path, **changes: Any) -> Recipe:
    plan = texts_recipe(folder, {"kind": "causal_lm"}).model_dump(mode="json")
    return Recipe.model_validate({**plan, "model": sizes(), **changes})


def test_it_has_no_biases_and_cached_steps_are_the_whole_pass() -> None:
    config = TextToTextConfig.model_validate(sizes())
    tokenizers = config.tokenizers(words())
    assert len(tokenizers.src) == len(words().src) + 10
    assert tokenizers.src.tokens([len(words().src)]) == ["<extra_id_0>"]
    model = config.build(tokenizers).double().eval()
    biases = [parameter for name, parameter in model.named_parameters() if name.endswith(".bias")]
    assert all(not bool(bias.any()) and not bias.requires_grad for bias in biases)
    stir(model)
    batch = batch_of([(4, 3), (1, 5)], vocab=len(words().src))
    cached, full = ModelSteps(model), PrefixSteps(model)
    fast, slow = cached.start(batch.src, batch.src_keep, 1), full.start(batch.src, batch.src_keep, 1)
    tokens = torch.full((2,), SPECIAL.bos)
    for _ in range(4):
        (said, fast), (wanted, slow) = cached.step(tokens, fast), full.step(tokens, slow)
        torch.testing.assert_close(said.log_probs, wanted.log_probs, atol=1e-12, rtol=0)
        tokens = wanted.log_probs.argmax(dim=1)


def test_spans_of_a_batch() -> None:
    config = TextToTextConfig.model_validate(sizes())
    tokenizers = config.tokenizers(words())
    objective = objective_of(ObjectiveConfig(), config, "texts", tokenizers, lambda: torch.ones(1))
    assert isinstance(objective, MaskedSpans)
    batch = collate_texts(tokenizers.src.encode_batch([SENTENCES[0], "cat"]), SPECIAL, [5, 6])
    pairs, left_out = objective.pairs(batch, [1, 2])
    assert (len(pairs), left_out, pairs.examples) == (1, 1, [5])
    # 1 of 6 tokens is masked; END on both sides.
    assert (pairs.src.shape[1], pairs.num_tgt_tokens) == (7, 4)


def test_the_target_may_be_the_whole_text() -> None:
    """The source is corrupted as before; a target is the text and END."""
    config = TextToTextConfig.model_validate(sizes())
    tokenizers = config.tokenizers(words())
    ids = tokenizers.src.encode_batch([SENTENCES[0], SENTENCES[1]])
    batch = collate_texts(ids, SPECIAL, [5, 6])
    made = {}
    for whole in (False, True):
        settings = ObjectiveConfig.model_validate({"spans": {"whole": whole}})
        objective = objective_of(settings, config, "texts", tokenizers, lambda: torch.ones(1))
        assert isinstance(objective, MaskedSpans)
        made[whole], _ = objective.pairs(batch, [1, 2])
        lengths = [target_length(len(text), config.sentinels, settings.spans) for text in ids]
        assert made[whole].num_tgt_tokens == sum(lengths)
    assert torch.equal(made[True].src, made[False].src)
    for row, text in zip(made[True].tgt_out, ids, strict=True):
        assert row[: len(text) + 1].tolist() == [*text, SPECIAL.eos]


def test_a_batch_of_texts_of_one_token_counts_nothing() -> None:
    """There is no span to hide, and no row to read."""
    config = TextToTextConfig.model_validate(sizes())
    tokenizers = config.tokenizers(words())
    objective = objective_of(ObjectiveConfig(), config, "texts", tokenizers, lambda: torch.ones(1))
    batch = collate_texts(tokenizers.src.encode_batch(["cat", "dog"]), SPECIAL, [5, 6])
    model = config.build(tokenizers)
    for report in (objective.training_loss(model, batch, 1), objective.validation_loss(model, batch)):
        assert (float(report.sum.detach()), report.nll, report.weight) == (0.0, 0.0, 0.0)
    assert objective.training_loss(model, batch, 1).left_out == 2
    objective.training_loss(model, batch, 1).sum.backward()


def test_it_learns_spans_then_pairs_with_prefixes(tmp_path: Path) -> None:
    first = Trainer(recipe(tmp_path, training={"stop_after": "40u", "threads": 1})).train()
    assert first.scores["loss"] < 1.0
    (tmp_path / "up.tsv").write_text("".join(f"{text}\t{text}\n" for text in SENTENCES), encoding="utf-8")
    animals = "".join(f"{text}\t{text.split()[2]}\n" for text in SENTENCES)
    (tmp_path / "animal.tsv").write_text(animals, encoding="utf-8")
    data = {
        "root": tmp_path,
        "train": [
            {"kind": "tsv", "path": "up.tsv", "prefix": "the the "},
            {"kind": "tsv", "path": "animal.tsv", "prefix": "big big "},
        ],
        "dev": {"kind": "tsv", "path": "animal.tsv", "prefix": "big big "},
    }
    tuned = recipe(
        tmp_path,
        data=data,
        run=tmp_path / "tuned",
        start_from=tmp_path / "run",
        training={"stop_after": "120u", "threads": 1},
        validation={"every": "60u", "metrics": ["exact"]},
    )
    assert Trainer(tuned).train().scores["exact"] == 100
    translator = Translator(tmp_path / "tuned")
    assert translator.translate(f"big big {SENTENCES[0]}").text == "cat"
    assert load_model(tmp_path / "tuned").config.model == tuned.model


def test_what_does_not_go_with_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="takes no other head or decoder and no draft"):
        TextToTextConfig.model_validate(sizes(decoder="ctc"))
    with pytest.raises(ConfigError, match=r"objective.glancing is not for model.kind text_to_text"):
        recipe(tmp_path, objective={"glancing": {}})
    with pytest.raises(ConfigError, match=r"objective.spans is for texts"):
        recipe(tmp_path, data={"train": {"kind": "tsv", "path": "x"}}, objective={"spans": {"density": 0.3}})

"""A causal language model: its loss at the start, packed rows, cached steps, padding, generation, what it refuses."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from qkv.core.errors import ConfigError, UsageError
from qkv.data.tasks.text_batch import TextBatch, collate_packed, collate_texts
from qkv.evaluation.perplexity import measure_perplexity, text_nll
from qkv.functional.losses import no_smoothing
from qkv.models.language.causal import CausalLM, CausalLMConfig
from qkv.models.saved.folder import SavedConfig, SavedModel, load_model, save_model
from qkv.objectives.teacher_forcing import TeacherForcing
from qkv.search.base import LengthLimits, SearchTask
from qkv.search.beam import BeamSearch
from qkv.search.models import ModelSteps, PrefixSteps
from qkv.text import SPECIAL
from qkv.training.recipe import Recipe
from qkv.training.trainer import Trainer
from qkv.translate.ask.generate import Generator
from qkv.translate.translator import Translator
from tests.support.language import SENTENCES, TEXT, texts_recipe, words
from tests.support.small import stir

TOKENIZERS = words()
SIZES: dict[str, Any] = {"d_model": 16, "d_ff": 32, "num_heads": 2, "num_layers": 2, "dropout": 0.0}
SCHEMES = ["learned", "rope", "alibi", "t5", "sinusoidal"]


def built(**changes: Any) -> CausalLM:
    torch.manual_seed(3)
    model = CausalLMConfig(**{**SIZES, **changes}).build(TOKENIZERS).double().eval()
    stir(model)
    return model


def ids(count: int) -> list[list[int]]:
    texts = [" ".join(text.split()[: 2 + n % 5]) for n, text in enumerate(SENTENCES[:count])]
    return TOKENIZERS.src.encode_batch(texts)


def test_at_the_start_every_token_is_as_likely() -> None:
    torch.manual_seed(0)
    model = CausalLMConfig(**{**SIZES, "d_model": 64}).build(TOKENIZERS)
    size = len(TOKENIZERS.tgt)
    report = TeacherForcing(no_smoothing(size)).validation_loss(model, collate_texts(ids(6), SPECIAL, range(6)))
    assert report.nll / report.weight == pytest.approx(math.log(size), abs=0.1)


@pytest.mark.parametrize("positions", SCHEMES)
def test_packed_texts_are_as_if_they_stood_alone(positions: str) -> None:
    model, texts = built(positions=positions), ids(5)
    packed = collate_packed([texts[:3], texts[3:]], SPECIAL, [0, 3])
    with torch.no_grad():
        together = model(packed).states[packed.tgt_weight > 0]
        alone = [model(collate_texts([own], SPECIAL, [0])).states[0] for own in texts]
    torch.testing.assert_close(together, torch.cat(alone), atol=1e-12, rtol=0)
    whole = collate_texts(texts, SPECIAL, range(5))
    assert torch.equal(packed.tgt_out[packed.tgt_weight > 0], whole.tgt_out[whole.tgt_weight > 0])


def test_a_packed_batch_is_split_by_rows() -> None:
    packed = collate_packed([ids(3), ids(2)], SPECIAL, [0, 3])
    first, second = packed.split()
    assert isinstance(first, TextBatch)
    assert (len(first), len(second)) == (1, 1)
    assert first.segments is not None
    assert packed.segments is not None
    assert torch.equal(first.segments, packed.segments[:1])


@pytest.mark.parametrize("positions", SCHEMES)
def test_cached_steps_are_the_whole_pass(positions: str) -> None:
    model = built(positions=positions)
    src = torch.full((2, 1), SPECIAL.eos)
    cached, full = ModelSteps(model), PrefixSteps(model)
    fast, slow = cached.start(src, src > 0, 2), full.start(src, src > 0, 2)
    tokens = torch.full((4,), SPECIAL.bos)
    for rows, sentences in (([1, 0, 3, 3], [0, 1]), ([2, 3, 0, 1], [1, 0]), ([2, 2], [1]), ([1, 0], [0])):
        (said, fast), (wanted, slow) = cached.step(tokens, fast), full.step(tokens, slow)
        torch.testing.assert_close(said.log_probs, wanted.log_probs, atol=1e-12, rtol=0)
        fast = fast.reorder(torch.tensor(rows), torch.tensor(sentences))
        slow = slow.reorder(torch.tensor(rows), torch.tensor(sentences))
        tokens = wanted.log_probs.argmax(dim=1)[torch.tensor(rows)]


def test_a_beam_finds_the_same_in_cached_steps() -> None:
    model, src = built(), torch.full((2, 1), SPECIAL.eos)
    task = SearchTask(src, src > 0, SPECIAL, [LengthLimits(9)] * 2)
    found, wanted = (BeamSearch(size=3).run(steps(model), task) for steps in (ModelSteps, PrefixSteps))
    assert [[each.tokens for each in own] for own in found] == [[each.tokens for each in own] for own in wanted]


@pytest.mark.parametrize("positions", SCHEMES)
def test_no_gradient_comes_from_later_tokens_or_from_padding(positions: str) -> None:
    model, batch = built(positions=positions), collate_texts(ids(3), SPECIAL, range(3))
    found: list[torch.Tensor] = []
    model.embedder.tokens.register_forward_hook(lambda module, inputs, output: found.append(output))
    state = model(batch).states[0, 1].sum()
    (gradient,) = torch.autograd.grad(state, found)
    assert bool(gradient[0, :2].any())
    assert not bool(gradient[0, 2:].any())
    assert not bool(gradient[1:].any())
    with torch.no_grad():
        alone = model(collate_texts(ids(1), SPECIAL, [0])).states[0]
        torch.testing.assert_close(model(batch).states[0, : len(alone)], alone, atol=1e-12, rtol=0)


@pytest.mark.parametrize(("window", "stride"), [(100, 50), (4, 2), (4, 4), (3, 1), (1, 1)])
def test_a_sliding_window_predicts_each_token_once(window: int, stride: int) -> None:
    model = built(positions="rope")
    tokens = [SPECIAL.bos, *TOKENIZERS.src.encode(SENTENCES[0]), SPECIAL.eos]
    total, start = 0.0, 0
    for place in range(1, len(tokens)):
        while place > min(start + window, len(tokens)):
            start += stride
        begin = start
        with torch.no_grad():
            log_probs = model.head.log_probs(model.states(torch.tensor([tokens[begin:place]]))[0, -1])
        total -= float(log_probs[tokens[place]])
    assert text_nll(model, tokens, window, stride) == pytest.approx(total, rel=1e-9)


def test_it_learns_generates_and_resumes_bit_for_bit(tmp_path: Path) -> None:
    packed = {"packed": True}
    recipe = texts_recipe(tmp_path, {"kind": "causal_lm"}, data=packed)
    result = Trainer(recipe).train()
    # 3 x 3 x 2 x 3 sentences of 6 words, END included 7 tokens.
    best = math.log(len(SENTENCES)) / 7
    assert result.scores["loss"] < 1.25 * best
    stopped = texts_recipe(
        tmp_path, {"kind": "causal_lm"}, data=packed, run=tmp_path / "again", training={"stop_after": "25u"}
    )
    Trainer(stopped).train()
    Trainer.resume(tmp_path / "again", ["training.stop_after=60u"]).train()
    ours, again = (load_model(tmp_path / name / "best") for name in ("run", "again"))
    for one, other in zip(ours.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(one, other)
    found = Generator(tmp_path / "run").generate(["the big cat", ""])
    assert [own[0].text in SENTENCES for own in found] == [True, True]
    assert found[0][0].text.startswith("the big cat ")
    report = measure_perplexity(ours, SENTENCES)
    assert report.perplexity == pytest.approx(math.exp(best), rel=0.2)
    assert report.bits_per_byte == pytest.approx(report.nll / math.log(2) / sum(map(len, SENTENCES)))
    with pytest.raises(UsageError, match="is a model of the kind causal_lm: qkv generate MODEL"):
        Translator(tmp_path / "run").translate(["a"])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"objective": {"glancing": {}}}, "objective.glancing is not for model.kind causal_lm"),
        ({"validation": {"metrics": ["exact"]}}, "model.kind causal_lm has no outputs to compare on data.kind texts"),
        ({"validation": {"search": "greedy"}}, "validation.search: model.kind causal_lm is not searched"),
        ({"text": {"shared": None, "src": "char", "tgt": "char"}}, "takes shared; src and tgt was given"),
        (
            {"data": {"packed": True}, "objective": {"consistency": "rdrop"}},
            "objective.consistency reads one text a row; leave out data.packed",
        ),
        (
            {"data": {"packed": True}, "objective": {"noise": [{"kind": "drop"}, {"kind": "swap"}]}},
            "objective.noise swap would move tokens from one text .* leave out data.packed",
        ),
        ({"data": {"max_tokens": 2000}}, "model.positions.max_length .1024. is below 2001"),
    ],
)
def test_a_wrong_combination_is_refused_when_it_is_read(tmp_path: Path, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        texts_recipe(tmp_path, {"kind": "causal_lm"}, **changes)


def test_texts_are_not_for_other_kinds(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="attention truncated is not for causal_lm"):
        CausalLMConfig(attention={"kind": "truncated", "left": 1, "right": 0})
    plan = texts_recipe(tmp_path, {"kind": "causal_lm"}).model_dump(mode="json")
    with pytest.raises(ConfigError, match=r"model.kind transformer learns from data.kind pairs, not from texts"):
        Recipe.model_validate({**plan, "model": {"kind": "transformer"}})
    pairs = {"train": {"kind": "tsv", "path": "pairs.tsv"}}
    with pytest.raises(ConfigError, match=r"model.kind causal_lm learns from data.kind texts, not from pairs"):
        Recipe.model_validate({**plan, "data": pairs})


def test_saved_and_loaded_it_is_the_same(tmp_path: Path) -> None:
    model = built(absent=(SPECIAL.pad, SPECIAL.unk)).float()
    config = CausalLMConfig(**SIZES, absent=(SPECIAL.pad, SPECIAL.unk))
    save_model(tmp_path / "model", SavedModel(model, TOKENIZERS, SavedConfig(model=config, text=TEXT)))
    loaded, batch = load_model(tmp_path / "model").model, collate_texts(ids(3), SPECIAL, range(3))
    with torch.no_grad():
        log_probs = model.head.log_probs(model(batch).states)
        assert torch.equal(loaded.head.log_probs(loaded(batch).states), log_probs)
    assert bool((log_probs[..., SPECIAL.unk] == -math.inf).all())
    few = built(positions={"kind": "learned", "max_length": 4})
    short = SavedModel(few, TOKENIZERS, SavedConfig(model=config, text=TEXT))
    with pytest.raises(UsageError, match="leaves no room"):
        Generator(short).generate([SENTENCES[0]])

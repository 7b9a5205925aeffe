"""A masked language model: what is masked, the dense Jacobian, padding; then labels and tags from its weights."""

import random
from pathlib import Path
from typing import Any

import pytest
import torch

from qkv.core.errors import ConfigError, DataError, UsageError
from qkv.data.batch import collate
from qkv.data.tasks.labelled import text_rows
from qkv.data.tasks.text_batch import collate_texts
from qkv.functional.losses import no_smoothing
from qkv.functional.masking.segments import segment_ids
from qkv.models.language.masked import MaskedLM, MaskedLMConfig
from qkv.models.saved.folder import load_model
from qkv.objectives.language.masked_tokens import MaskedTokens, MaskedTokensOfPairs
from qkv.text import SPECIAL, fingerprint
from qkv.text.extra.segments import segmented
from qkv.training.recipe import Recipe
from qkv.training.trainer import Trainer
from qkv.translate.ask.labelling import predicted_labels
from qkv.translate.ask.vectors import TextVectors
from tests.support.language import SENTENCES, texts_recipe, words
from tests.support.small import stir

TOKENIZERS = words()
SIZE = len(TOKENIZERS.src)
SIZES: dict[str, Any] = {"d_model": 16, "d_ff": 32, "num_heads": 2, "num_layers": 2, "dropout": 0.0}


def built(**changes: Any) -> MaskedLM:
    torch.manual_seed(3)
    model = MaskedLMConfig(**{**SIZES, **changes}).build(TOKENIZERS).double().eval()
    stir(model)
    return model


def objective(rate: float = 0.15) -> MaskedTokens:
    return MaskedTokens(SIZE, SPECIAL, rate, no_smoothing(SIZE), no_smoothing(SIZE))


def test_tokens_are_chosen_and_replaced_as_published() -> None:
    long = [TOKENIZERS.src.encode(" ".join(SENTENCES[:10])) for _ in range(200)]
    batch = collate_texts([*long, TOKENIZERS.src.encode("cat")], SPECIAL, range(201))
    torch.manual_seed(0)
    src, chosen = objective().corrupted(batch, torch.rand(3, *batch.src.shape))
    ordinary = batch.src_keep & (batch.src >= 5)
    assert not bool(chosen[~ordinary].any())
    assert chosen[:-1].sum(dim=1).tolist() == [9] * 200, "15 % of 60 tokens"
    assert int(chosen[-1].sum()) == 1, "at least one"
    assert torch.equal(src[~chosen], batch.src[~chosen])
    masked = float((src[chosen] == SPECIAL.mask).double().mean())
    kept = float((src[chosen] == batch.src[chosen]).double().mean())
    assert masked == pytest.approx(0.8, abs=0.04)
    # A random token is the same one now and then.
    assert kept == pytest.approx(0.1 + 0.1 / (SIZE - 5), abs=0.03)
    assert int(src.min()) >= 0
    assert bool((src[chosen & (src != SPECIAL.mask)] >= 5).all())


def test_only_chosen_positions_count_and_validation_does_not_depend_on_the_batch() -> None:
    model = built()
    ids = TOKENIZERS.src.encode_batch(["the big cat", *SENTENCES[:3]])
    batch = collate_texts(ids, SPECIAL, [7, 3, 9, 4])
    with torch.no_grad():
        whole = objective().validation_loss(model, batch)
        parts = [objective().validation_loss(model, half) for half in batch.split()]
    assert whole.weight == 4
    assert whole.nll == pytest.approx(sum(float(part.nll) for part in parts), rel=1e-12)
    assert objective().validation_loss(model, batch).nll == whole.nll


def test_every_position_sees_every_token_and_no_padding() -> None:
    model = built()
    batch = text_rows(TOKENIZERS.src.encode_batch(["the big", SENTENCES[0]]), TOKENIZERS.src, [0, 1])
    found: list[torch.Tensor] = []
    model.encoder.tokens.register_forward_hook(lambda module, inputs, output: found.append(output))
    for position in range(4):
        found.clear()
        (gradient,) = torch.autograd.grad(model(batch).states[0, position].square().sum(), found)
        assert bool(gradient[0, :4].any(dim=-1).all())
        assert not bool(gradient[0, 4:].any())
        assert not bool(gradient[1].any())
    with torch.no_grad():
        alone = model(text_rows(TOKENIZERS.src.encode_batch(["the big"]), TOKENIZERS.src, [0])).states
        torch.testing.assert_close(model(batch).states[:1, :4], alone, atol=1e-12, rtol=0)


def label_recipe(folder: Path, kind: str, data: str, target: Any, **changes: Any) -> Recipe:
    lines = "".join(f"{text}\t{target(text)}\n" for text in SENTENCES)
    (folder / f"{data}.tsv").write_text(lines, encoding="utf-8")
    plan = texts_recipe(folder, {"kind": "masked_lm"}).model_dump(mode="json")
    plan["data"] = {"kind": data, "root": folder, "train": {"kind": "tsv", "path": f"{data}.tsv"}, "holdout": 8}
    plan["text"] = {"src": "whitespace", "tgt": "labels" if data == "labelled" else "whitespace"}
    plan["model"] = {**SIZES, "d_model": 32, "num_heads": 4, "d_ff": 64, "kind": kind}
    plan |= {"run": folder / data, "validation": {"every": "100u", "metrics": ["exact"], "best": "exact"}}
    plan["training"] = {"stop_after": "200u", "threads": 1}
    plan["schedule"] = {"kind": "inverse_sqrt", "peak": 0.005, "warmup": 10}
    return Recipe.model_validate({**plan, **changes})


def animal(text: str) -> str:
    return {"cat": "small pet", "dog": "large pet", "bird": "wild"}[text.split()[2]]


def word_kinds(text: str) -> str:
    return " ".join({"the": "D", "sees": "V", "likes": "V"}.get(word, "N") for word in text.split())


def test_it_learns_then_labels_texts_and_words(tmp_path: Path) -> None:
    result = Trainer(texts_recipe(tmp_path, {"kind": "masked_lm"}, training={"stop_after": "60u"})).train()
    # Uniform over the words would be log 15; what follows from the others alone is about log 3.
    assert result.scores["loss"] < 1.3
    pretrained = load_model(tmp_path / "run")
    labelled = Trainer(label_recipe(tmp_path, "classifier", "labelled", animal, start_from=tmp_path / "run")).train()
    assert labelled.scores["exact"] == 100
    another = label_recipe(tmp_path, "classifier", "labelled", animal, start_from=tmp_path / "run", run=tmp_path / "b")
    another = another.model_copy(update={"model": another.model.model_copy(update={"norm_eps": 1e-5})})
    with pytest.raises(UsageError, match=r"has model\.norm_eps 1e-12, not 1e-05; give model\.norm_eps=1e-12"):
        Trainer(another).train()
    tagged = Trainer(label_recipe(tmp_path, "tagger", "tagged", word_kinds)).train()
    assert tagged.scores["exact"] == 100
    classifier = load_model(tmp_path / "labelled")
    assert classifier.tokenizers.src.definition() == pretrained.tokenizers.src.definition()
    found = predicted_labels(classifier.model, classifier.tokenizers, ["the red bird likes the tree", "the dog"])
    assert found[0].text == "wild"
    saved = load_model(tmp_path / "tagged")
    assert predicted_labels(saved.model, saved.tokenizers, ["the red dog likes the tree"])[0].text == "D N N V D N"
    vectors = TextVectors(tmp_path / "run")
    both = vectors.sentences(SENTENCES[:2], normalize=True)
    assert both.shape == (2, 32)
    torch.testing.assert_close(both.norm(dim=1), torch.ones(2))
    torch.testing.assert_close(vectors.sentences(SENTENCES[1:2], normalize=True), both[1:], atol=1e-5, rtol=0)
    assert vectors.encode(["the cat"])[0].tokens == ["<s>", "the", "cat", "</s>"]


def test_wrong_data_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"data.packed: model.kind masked_lm reads one text a row"):
        texts_recipe(tmp_path, {"kind": "masked_lm"}, data={"packed": True})
    with pytest.raises(ConfigError, match=r"model.kind classifier learns from data.kind labelled, not from tagged"):
        label_recipe(tmp_path, "classifier", "tagged", word_kinds)
    with pytest.raises(DataError, match=r"tagged.tsv:1: has 6 words and 1 tags; give one tag for each word"):
        Trainer(label_recipe(tmp_path, "tagger", "tagged", lambda text: "N")).train()
    for tokenizer in ("labels", "char"):
        text = {"src": "whitespace", "tgt": tokenizer}
        with pytest.raises(DataError, match=r"tagged.tsv:1: text.tgt does not make one token of each tag of 'D N"):
            Trainer(label_recipe(tmp_path, "tagger", "tagged", word_kinds, text=text)).train()
    lm = Trainer(texts_recipe(tmp_path, {"kind": "causal_lm"}, training={"stop_after": "1u"})).train()
    with pytest.raises(UsageError, match="kind causal_lm has no encoder of texts whose states could be taken; qkv gen"):
        TextVectors(lm.run)


def test_a_segment_begins_behind_each_end() -> None:
    tokens = torch.tensor([[2, 9, 3, 8, 3, 7, 3, 0], [2, 9, 9, 9, 3, 0, 0, 0]])
    for most in (1, 2, 3):
        wanted = [[min(row[:t].count(3), most - 1) for t in range(len(row))] for row in tokens.tolist()]
        assert segment_ids(tokens, 3, most).tolist() == wanted
    model, keep = built(), tokens != 0
    explicit = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0, 0, 0]])
    states = model.encoder(tokens, keep)
    torch.testing.assert_close(states[keep], model.encoder(tokens, keep, explicit)[keep], atol=1e-12, rtol=0)
    first = model.encoder(tokens, keep, torch.zeros_like(explicit))
    assert not torch.allclose(states[0], first[0])
    torch.testing.assert_close(states[1][keep[1]], first[1][keep[1]], atol=1e-12, rtol=0)


def test_a_separator_becomes_the_end_of_a_segment() -> None:
    inner = TOKENIZERS.src
    cut = segmented(inner, "|||")
    assert segmented(inner, None) is inner
    one, other = inner.encode("the cat"), inner.encode("a zebra sees")
    assert cut.encode("the cat ||| a zebra sees") == [*one, SPECIAL.eos, *other]
    assert cut.encode_batch(["the cat ||| a zebra sees", "the cat"]) == [[*one, SPECIAL.eos, *other], one]
    assert cut.sample("the cat|||the cat", random.Random(1)) == [*one, SPECIAL.eos, *one]
    assert cut.unknowns("the cat ||| a zebra sees") == inner.unknowns("a zebra sees")
    assert fingerprint(cut) == fingerprint(inner), "so that a classifier of pairs starts from a model of single texts"


def test_which_of_two_texts_says_something_is_learned(tmp_path: Path) -> None:
    """The same words on both sides of the separator in another order have another label."""
    draw = random.Random(4)
    lines = []
    for _ in range(300):
        sides = [draw.choices(["big", "small", "red", "tree"], k=draw.randint(1, 4)) for _ in range(2)]
        place = draw.randrange(2)
        sides[place].insert(draw.randrange(len(sides[place]) + 1), "cat")
        lines.append(f"{' '.join(sides[0])} ||| {' '.join(sides[1])}\t{('first', 'second')[place]}")
    (tmp_path / "labelled.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    plan = label_recipe(tmp_path, "classifier", "labelled", str).model_dump(mode="json")
    (tmp_path / "labelled.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    plan["model"] |= {"separator": "|||"}
    plan["validation"] = {"every": "200u"}
    Trainer(Recipe.model_validate(plan)).train()
    saved = load_model(plan["run"])
    asked = ["big cat ||| red tree tree", "big ||| cat tree tree", "red red red red ||| cat"]
    assert [own.text for own in predicted_labels(saved.model, saved.tokenizers, asked)] == ["first", "second", "second"]


def test_both_texts_of_a_pair_are_masked(tmp_path: Path) -> None:
    joined = MaskedTokensOfPairs(objective(rate=0.5))
    src, tgt = TOKENIZERS.src.encode("the big cat"), TOKENIZERS.src.encode("dog")
    pairs = collate([src, tgt], [tgt, src], SPECIAL, SPECIAL, [0, 1])
    batch = joined.joined(pairs)
    row = [SPECIAL.bos, *src, SPECIAL.eos, *tgt, SPECIAL.eos]
    assert batch.src.tolist() == [row, [SPECIAL.bos, *tgt, SPECIAL.eos, *src, SPECIAL.eos]]
    assert bool(batch.src_keep.all())
    assert joined.validation_loss(built(), pairs).weight == 4
    tsv = {"kind": "tsv", "path": "pairs.tsv"}
    (tmp_path / "pairs.tsv").write_text("".join(f"{text}\t{text}\n" for text in SENTENCES), encoding="utf-8")
    model = {"kind": "masked_lm", "positions": {"kind": "learned", "max_length": 14}}
    plan = texts_recipe(tmp_path, model, data={"max_tokens": 8}).model_dump(mode="json")
    plan["data"] = {"kind": "pairs", "root": str(tmp_path), "train": tsv, "max_src_tokens": 8, "max_tgt_tokens": 8}
    with pytest.raises(UsageError, match=r"max_length \(14\) is below 15, the most tokens of both texts; raise it"):
        Trainer(Recipe.model_validate(plan)).train()
    with pytest.raises(ConfigError, match=r"reads both texts of a pair with one tokenizer: give text.shared"):
        Recipe.model_validate({**plan, "text": {"src": "whitespace", "tgt": "whitespace"}})

"""Language models against those of transformers, with the same weights."""

import json
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers

from qkv.export.folder import export_model
from qkv.export.importing.folder import import_model
from qkv.models.language.causal import CausalLM
from qkv.models.saved.folder import load_model
from qkv.text import SPECIAL
from qkv.text.huggingface import HuggingFaceTokenizer
from qkv.training.trainer import Trainer
from tests.support.language import SENTENCES, texts_recipe

transformers = pytest.importorskip("transformers")
ATOL = 1e-5
WORDS = ["the", "big", "cat", "sees", "a", "dog", "##s"]


def written_tokenizer(folder: Path, special: list[str]) -> int:
    """A tokenizer.json of words, special tokens first; the size of its vocabulary."""
    vocab = {word: i for i, word in enumerate([*special, *WORDS])}
    library = Tokenizer(models.WordLevel(vocab, unk_token=special[0]))
    library.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    library.add_special_tokens(special)
    library.save(str(folder / "tokenizer.json"))
    return len(vocab)


@pytest.mark.parametrize("activation", ["gelu_new", "relu"])
def test_gpt2_is_imported(tmp_path: Path, activation: str) -> None:
    theirs_folder = tmp_path / "theirs"
    config = transformers.GPT2Config(
        vocab_size=8,
        n_positions=16,
        n_embd=12,
        n_layer=2,
        n_head=3,
        activation_function=activation,
        eos_token_id=0,
        bos_token_id=0,
    )
    torch.manual_seed(0)
    theirs = transformers.GPT2LMHeadModel(config).eval()
    theirs.save_pretrained(theirs_folder)
    assert written_tokenizer(theirs_folder, ["<|endoftext|>"]) == 8
    saved = import_model(theirs_folder, tmp_path / "ours")
    ours = load_model(tmp_path / "ours").model
    assert isinstance(ours, CausalLM)
    ids = torch.tensor([[SPECIAL.eos, *saved.tokenizers.src.encode("the big cat sees a dog")]])
    tokenizer = saved.tokenizers.src
    assert isinstance(tokenizer, HuggingFaceTokenizer)
    their_of = tokenizer.theirs
    with torch.no_grad():
        found = ours.head.log_probs(ours.states(ids))
        wanted = theirs(torch.tensor([[their_of[i] or 0 for i in ids[0].tolist()]])).logits.log_softmax(-1)
    known = [our for our in range(len(saved.tokenizers.src)) if our not in (0, 1, 2, 4)]
    torch.testing.assert_close(found[..., known], wanted[..., [their_of[i] or 0 for i in known]], atol=ATOL, rtol=0)


def test_a_causal_lm_is_exported_to_gpt2(tmp_path: Path) -> None:
    recipe = texts_recipe(tmp_path, {"kind": "causal_lm", "feed_forward": "gelu_tanh"}, training={"stop_after": "3u"})
    Trainer(recipe).train()
    export_model(tmp_path / "run", "huggingface", tmp_path / "hf")
    theirs, saved = (
        transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "hf").eval(),
        load_model(tmp_path / "run"),
    )
    assert type(theirs).__name__ == "GPT2LMHeadModel"
    assert json.loads((tmp_path / "hf" / "config.json").read_text())["n_embd"] == 32
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    ids = saved.tokenizers.src.encode(SENTENCES[0])
    assert tokenizer(SENTENCES[0])["input_ids"] == [*ids, SPECIAL.eos]
    tokens = torch.tensor([[SPECIAL.bos, *ids]])
    assert isinstance(saved.model, CausalLM)
    with torch.no_grad():
        found = saved.model.head.log_probs(saved.model.states(tokens))
        torch.testing.assert_close(found, theirs(tokens).logits.log_softmax(-1), atol=ATOL, rtol=0)

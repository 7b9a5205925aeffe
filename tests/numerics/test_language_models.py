"""Language models against those of transformers, with the same weights."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers

from qkv.core.errors import UsageError
from qkv.data.tasks.labelled import text_rows
from qkv.export.folder import export_model
from qkv.export.importing.folder import import_model
from qkv.export.importing.gpt2 import gpt2_config
from qkv.models.language.causal import CausalLM
from qkv.models.language.masked import MaskedLM
from qkv.models.language.text_to_text import TextToTextConfig
from qkv.models.saved.folder import load_model
from qkv.models.saved.weights import load_weights
from qkv.models.transformer.build import build_model
from qkv.models.transformer.model import Transformer
from qkv.text import SPECIAL
from qkv.text.extra.huggingface import HuggingFaceTokenizer
from qkv.training.trainer import Trainer
from qkv.translate.ask.vectors import TextVectors
from tests.support.language import SENTENCES, texts_recipe

transformers = pytest.importorskip("transformers", reason="it is the extra hf")
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


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx true .* only with false"),
        ({"scale_attn_weights": False}, "scale_attn_weights false cannot be imported, only with true"),
        ({"layer_norm_epsilon": 1e-6}, "layer_norm_epsilon 1e-06 cannot be imported, only with 1e-05"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings false cannot be imported, only with true"),
        ({"activation_function": "silu"}, "the activation silu cannot be imported, only gelu_new, gelu, relu"),
    ],
)
def test_a_gpt2_that_computes_otherwise_is_refused(settings: dict[str, Any], sentence: str) -> None:
    config = transformers.GPT2Config(n_positions=16, n_embd=12, n_layer=1, n_head=3)
    assert gpt2_config(config.to_dict()).d_model == 12
    with pytest.raises(UsageError, match=sentence):
        gpt2_config(config.to_dict() | settings)


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


@pytest.mark.parametrize("headed", [True, False])
def test_bert_is_imported(tmp_path: Path, headed: bool) -> None:
    special = ["[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]"]
    sizes = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20}
    config = transformers.BertConfig(vocab_size=12, **sizes, max_position_embeddings=16, pad_token_id=1)
    torch.manual_seed(0)
    theirs = (transformers.BertForMaskedLM if headed else transformers.BertModel)(config).eval()
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    theirs.save_pretrained(tmp_path / "theirs")
    assert written_tokenizer(tmp_path / "theirs", special) == 12
    saved = import_model(tmp_path / "theirs", tmp_path / "ours")
    ours, tokenizer = load_model(tmp_path / "ours").model, saved.tokenizers.src
    assert isinstance(ours, MaskedLM)
    assert isinstance(tokenizer, HuggingFaceTokenizer)
    batch = text_rows(tokenizer.encode_batch(["the big cat sees a dog", "a dog"]), tokenizer, [0, 1])
    ids = torch.tensor([[tokenizer.theirs[i] or 0 for i in row] for row in batch.src.tolist()])
    segments = (torch.arange(batch.src.shape[1]) > 3).long().expand_as(batch.src)
    with torch.no_grad():
        states = ours.encoder(batch.src, batch.src_keep, segments)
        encoder = theirs.bert if headed else theirs
        wanted = encoder(ids, batch.src_keep.long(), segments).last_hidden_state
        torch.testing.assert_close(states[batch.src_keep], wanted[batch.src_keep], atol=ATOL, rtol=0)
        if headed:
            found = ours.head.logits(ours(batch).states)
            logits = theirs(ids, batch.src_keep.long()).logits[..., [i or 0 for i in tokenizer.theirs]]
            torch.testing.assert_close(found[batch.src_keep], logits[batch.src_keep], atol=ATOL, rtol=0)
    pooled = TextVectors(tmp_path / "ours").sentences(["a dog"])
    with torch.no_grad():
        alone = encoder(ids[1:, :4]).last_hidden_state.mean(dim=1)
    torch.testing.assert_close(pooled, alone, atol=ATOL, rtol=0)


def test_t5_with_the_same_weights(tmp_path: Path) -> None:
    sizes = {"d_model": 12, "d_kv": 4, "num_heads": 3, "d_ff": 20, "num_layers": 2, "vocab_size": 30}
    config = transformers.T5Config(**sizes, feed_forward_proj="gated-gelu", tie_word_embeddings=False)
    torch.manual_seed(0)
    theirs = transformers.T5ForConditionalGeneration(config).eval()
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    ours_config = TextToTextConfig(
        d_model=12, d_ff=20, num_heads=3, encoder_layers=2, decoder_layers=2, share_embeddings="none", sentinels=2
    )
    ours = build_model(ours_config, 30, 30, 0).eval()
    load_t5(ours, dict(theirs.state_dict()))
    src, tgt = torch.tensor([[7, 8, 9, 10, 1], [11, 12, 1, 0, 0]]), torch.tensor([[0, 5, 6], [0, 7, 8]])
    keep = torch.arange(5) < torch.tensor([[5], [3]])
    with torch.no_grad():
        # Their decoder starts with the padding, which has a vector there.
        found = ours.decode(tgt, ours.encode(src, keep), keep)
        wanted = theirs(input_ids=src, attention_mask=keep.long(), decoder_input_ids=tgt).logits
    torch.testing.assert_close(ours.head.scores(found), wanted, atol=ATOL, rtol=0)


def load_t5(ours: Transformer, theirs: dict[str, torch.Tensor]) -> None:
    """Copy the weights: queries are multiplied by √d_k, by which T5 does not divide; embeddings divided by √d_model."""
    weights = {name: torch.zeros_like(parameter) for name, parameter in ours.named_parameters()}
    shared = theirs["shared.weight"] / 12**0.5
    weights |= {"src_embedder.tokens.weight": shared, "tgt_embedder.tokens.weight": shared}
    weights["head.weight"] = theirs["lm_head.weight"]
    for side, embedder in (("encoder", "src_embedder"), ("decoder", "tgt_embedder")):
        bias = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        weights[f"{embedder}.positions.weight"] = theirs[bias]
        weights[f"{side}.final.weight"] = theirs[f"{side}.final_layer_norm.weight"]
        for number in range(2):
            own, other = f"{side}.layers.{number}.", f"{side}.block.{number}.layer."
            places = [("attention", "attention_residual", "0.SelfAttention", 0)]
            places += [("cross_attention", "cross_residual", "1.EncDecAttention", 1)] * (side == "decoder")
            for attention, residual, name, place in places:
                for part, letter in (("query", "q"), ("key", "k"), ("value", "v"), ("output", "o")):
                    scale = 4**0.5 if part == "query" else 1.0
                    weights[f"{own}{attention}.{part}.weight"] = scale * theirs[f"{other}{name}.{letter}.weight"]
                weights[f"{own}{residual}.norm.weight"] = theirs[f"{other}{place}.layer_norm.weight"]
            last = len(places)
            for part, name in (("gate", "wi_0"), ("inner", "wi_1"), ("outer", "wo")):
                weights[f"{own}feed_forward.{part}.weight"] = theirs[f"{other}{last}.DenseReluDense.{name}.weight"]
            weights[f"{own}feed_forward_residual.norm.weight"] = theirs[f"{other}{last}.layer_norm.weight"]
    load_weights(ours, weights, Path("t5"))

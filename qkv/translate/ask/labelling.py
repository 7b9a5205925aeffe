"""Labels of texts, or of their words, by a model on a text encoder."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from qkv.data.tasks.labelled import first_places, text_rows, word_tokens
from qkv.models.base import Model
from qkv.models.language.classify import Tagger
from qkv.text import TokenizerPair
from qkv.text.special import NAMES


@dataclass(frozen=True)
class Label:
    """The label of a text, or the tags of its words with a space between them."""

    text: str
    probabilities: list[float]
    """Of the label, or of each tag."""


@torch.no_grad()
def predicted_labels(model: Model, tokenizers: TokenizerPair, texts: Sequence[str]) -> list[Label]:
    """The most probable label of each text, or tags of its words; too long a text is cut."""
    longest = model.limits.src
    whole = [word_tokens(text, tokenizers.src) for text in texts]
    tags = isinstance(model, Tagger)
    ids = [[i for word in own for i in word] for own in whole] if tags else tokenizers.src.encode_batch(list(texts))
    room = None if longest is None else longest - 2
    batch = text_rows([own[:room] for own in ids], tokenizers.src, list(range(len(texts))))
    best, labels = model.head.log_probs(model(batch).states, never=range(len(NAMES))).max(dim=-1)
    if not tags:
        return [
            Label(tokenizers.tgt.decode([int(own)]), [float(sure)])
            for own, sure in zip(labels[:, 0], best[:, 0].exp(), strict=True)
        ]
    found = []
    for row, words in enumerate(whole):
        places = [place for place in first_places(words) if place < batch.src.shape[1] - 1]
        sure = best[row, places].exp().tolist()
        found.append(Label(tokenizers.tgt.decode(labels[row, places].tolist()), sure))
    return found

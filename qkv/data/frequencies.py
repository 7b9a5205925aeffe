"""How often each target token occurs."""

from itertools import chain

import torch
from jaxtyping import Float
from torch import Tensor

from qkv.data.store import PairStore
from qkv.text.tokenizer import Tokenizer


def tgt_frequencies(store: PairStore, tokenizer: Tokenizer) -> Float[Tensor, " V"]:
    """Counts over the targets of a store, END included."""
    counts = torch.zeros(len(tokenizer), dtype=torch.float64)
    for chunk in store.chunks():
        ids = list(chain.from_iterable(tokenizer.encode_batch([tgt for _, tgt in chunk])))
        counts += torch.bincount(torch.tensor(ids), minlength=len(counts))
        counts[tokenizer.special.eos] += len(chunk)
    return counts

"""Starts a run from the weights of an existing model."""

from pathlib import Path

import torch
from torch import Tensor

from qkv.core.errors import UsageError
from qkv.models.base import Model
from qkv.models.saved.folder import TOKENIZER, load_model
from qkv.models.saved.locate import locate_model
from qkv.models.saved.weights import load_weights, named_weights
from qkv.text import TokenizerPair, fingerprint

NEW = ("draft_head.", "length_predictor.", "opening.", "transitions.")
"""Parts that the existing model may lack: they are initialised then."""
TABLE = "tokens.weight"


def tokenizers_of(start_from: Path) -> Path:
    """The folder of the model's tokenizers."""
    return locate_model(start_from) / TOKENIZER


def copy_weights(model: Model, start_from: Path, tokenizers: TokenizerPair) -> None:
    """Give `model` the weights of the one in `start_from`, or of the best one of the run there."""
    folder = locate_model(start_from)
    saved = load_model(folder)
    for own, other in ((tokenizers.src, saved.tokenizers.src), (tokenizers.tgt, saved.tokenizers.tgt)):
        if fingerprint(own) != fingerprint(other):
            raise UsageError(f"start_from {start_from}: has another vocabulary; leave out tokenizers to use its own")
    found, fresh = named_weights(saved.model), named_weights(model)
    kept = {name: weight for name, weight in fresh.items() if name.startswith(NEW) and name not in found}
    wrong = sorted(fresh.keys() ^ (found.keys() | kept.keys()))
    if wrong:
        raise UsageError(
            f"start_from {start_from}: is another kind of model (see {wrong[0]}); make the model keys equal"
        )
    tables = {name: with_new_ids(found[name], fresh[name]) for name in found if name.endswith(TABLE)}
    load_weights(model, found | tables | kept, folder)


def with_new_ids(table: Tensor, fresh: Tensor) -> Tensor:
    """`table`, and below it the rows of `fresh` that it lacks: ids beyond the vocabulary, such as the blank of CTC."""
    return torch.cat([table, fresh[len(table) :]]) if table.shape[1] == fresh.shape[1] else table

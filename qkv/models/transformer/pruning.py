"""Heads of a saved Transformer closed for a while, removed for good, or filled up with empty ones."""

import copy
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace

from qkv.core.errors import UsageError
from qkv.layers.attention.gates import settle_gates
from qkv.layers.attention.pruning import add_empty_heads, head_columns, keep_heads
from qkv.layers.attention.recording import name_attentions
from qkv.models.saved.folder import SavedModel
from qkv.models.transformer.config import TransformerConfig, require_transformer_config
from qkv.models.transformer.head_ids import SIDES, AttentionPlace, HeadId, own_attentions
from qkv.models.transformer.model import Transformer, require_transformer
from qkv.models.transformer.pruned_heads import PrunedHeads

WHAT = "pruning of heads"


@contextmanager
def closed_heads(model: Transformer, closed: Collection[HeadId]) -> Iterator[None]:
    """Inside, the output of these heads counts as 0; afterwards the model is as before."""
    columns = [
        head_columns(place.attention, head.head - 1)
        for place in own_attentions(model)
        for head in place.heads
        if head in closed
    ]
    before = [part.clone() for part in columns]
    for part in columns:
        part.zero_()
    try:
        yield
    finally:
        for part, values in zip(columns, before, strict=True):
            part.copy_(values)


def without_gates(saved: SavedModel) -> tuple[SavedModel, list[HeadId]]:
    """A model with its settled gates in W_o instead of in modules of their own, and the heads that they close.

    Where all heads of an attention are closed, one of them is left out of the list: its W_o is 0. So are heads whose
    weights the output head reads.
    """
    config = require_transformer_config(saved.config.model, WHAT)
    if config.head_gates is None:
        return saved, []
    model, closed = copy.deepcopy(require_transformer(saved.model, WHAT)), []
    for place in own_attentions(model):
        heads = [place.heads[head] for head in settle_gates(place.attention)]
        if not read_by_head(model, place):
            closed += heads[1:] if len(heads) == place.attention.num_heads else heads
    name_attentions(model)
    plain = config.model_copy(update={"head_gates": None})
    return replace(saved, model=model, config=saved.config.model_copy(update={"model": plain})), closed


def read_by_head(model: Transformer, place: AttentionPlace) -> bool:
    """Whether the output head reads the weights of this attention: without one of its heads, their mean is another."""
    return place.side == "cross" and model.head.needs_attention


def prune_heads(saved: SavedModel, removed: Collection[HeadId]) -> SavedModel:
    """A smaller model without these heads; its outputs are those of the model with these heads closed."""
    saved, _ = without_gates(saved)
    model = copy.deepcopy(require_transformer(saved.model, WHAT))
    config = require_transformer_config(saved.config.model, WHAT)
    require_prunable(config, removed)
    for place in own_attentions(model):
        if read_by_head(model, place) and any(head in removed for head in place.heads):
            raise UsageError(
                "the output head reads the weights of the cross-attention, so its heads stay; remove heads of encoder "
                "and decoder"
            )
        kept = [head.head - 1 for head in place.heads if head not in removed]
        if not kept:
            raise UsageError(f"{place.side} {place.layer}: one head of each attention must stay")
        if len(kept) < place.attention.num_heads:
            keep_heads(place.attention, kept)
    name_attentions(model)
    smaller = config.model_copy(update={"pruned_heads": _pruned(config, removed)})
    return replace(saved, model=model, config=saved.config.model_copy(update={"model": smaller}))


def require_prunable(config: TransformerConfig, removed: Collection[HeadId]) -> None:
    """Raise UsageError if some of these heads cannot be removed one by one."""
    for side in SIDES:
        if any(head.side == side for head in removed) and not config.sides[side][0].prunable:
            raise UsageError(config.unprunable(side))


def _pruned(config: TransformerConfig, removed: Collection[HeadId]) -> PrunedHeads:
    """What was removed before and now, by the numbers of the heads in the whole model."""
    found = {}
    for side in SIDES:
        gone = []
        for depth in range(config.distinct(config.sides[side][1])):
            kept = config.pruned_heads.kept(side, depth, config.num_heads)
            left = {kept[number] for number in range(len(kept)) if HeadId(side, depth + 1, number + 1) not in removed}
            gone.append(tuple(head + 1 for head in range(config.num_heads) if head not in left))
        found[side] = tuple(gone) if any(gone) else ()
    return PrunedHeads(**found)


def with_even_heads(saved: SavedModel) -> SavedModel:
    """The same model with as many heads in every layer; those that were removed give 0.

    For formats that have one number of heads for a whole model.
    """
    config = require_transformer_config(saved.config.model, WHAT)
    if config.pruned_heads == PrunedHeads():
        return saved
    model = copy.deepcopy(require_transformer(saved.model, WHAT))
    for place in own_attentions(model):
        add_empty_heads(place.attention, config.num_heads)
    name_attentions(model)
    even = config.model_copy(update={"pruned_heads": PrunedHeads()})
    return replace(saved, model=model, config=saved.config.model_copy(update={"model": even}))

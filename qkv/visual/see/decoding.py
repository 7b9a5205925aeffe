"""How the output of one text was found: the search with what it kept, and the candidates at each position."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from qkv.core.errors import UsageError
from qkv.data.batch import padded
from qkv.models.saved.folder import SavedModel
from qkv.search.base import SearchConfig, SearchTask
from qkv.search.beam import BeamConfig
from qkv.search.greedy import GreedyConfig
from qkv.search.hypothesis import Hypothesis
from qkv.search.models import SearchedModels
from qkv.search.refinement.base import Wanted, reader_for
from qkv.search.refinement.search import RefineConfig
from qkv.search.speculative.search import SpeculativeConfig
from qkv.text.special import NEVER_OUTPUT, SPECIAL
from qkv.translate.output import TokenChoice
from qkv.visual.beam_tree import Node, grow_tree
from qkv.visual.drafts import DraftPass, watch_drafts
from qkv.visual.passes import CanvasCell, watch_passes

CANDIDATES = 12
"""The tokens shown for each position."""


@dataclass(frozen=True)
class Decoded:
    """The best output of a search, and how it was found."""

    best: Hypothesis
    beam: list[Node] = field(default_factory=list)
    """What a beam search kept, parents first; empty: another search."""
    passes: list[list[CanvasCell]] = field(default_factory=list)
    """The canvas after each pass; empty: the model writes token by token."""
    drafts: list[DraftPass] = field(default_factory=list)
    """Each pass of speculative decoding: what was guessed, and how much of it was right; empty: another search."""
    never: tuple[int, ...] = NEVER_OUTPUT
    """Tokens that the search never puts out."""


def decode_watched(saved: SavedModel, text: str, ids: list[int], search: SearchConfig) -> Decoded:
    """Search the output of a text with these ids, and keep what the search did."""
    if isinstance(search, RefineConfig):
        rows, best = watch_passes(saved, text, search)
        reader = reader_for(search.reader, saved.model.kind).build(saved.model, Wanted())
        return Decoded(best, passes=rows, never=reader.never)
    if saved.model.inference().steps is None:
        raise UsageError(f"a model of the kind {saved.model.kind} has one search, refine; leave search.kind out")
    if isinstance(search, BeamConfig):
        nodes, best = grow_tree(saved, text, search)
        return Decoded(best, beam=nodes)
    if isinstance(search, SpeculativeConfig):
        settings = search.model_dump(include=set(GreedyConfig.model_fields) - {"kind"})
        drafts, best = watch_drafts(saved, text, search.drafter, GreedyConfig(**settings))
        return Decoded(best, drafts=drafts)
    src, src_keep = padded([ids], SPECIAL.pad)
    limits = search.limits(len(ids), saved.model.limits.tgt)
    task = SearchTask(src, src_keep, SPECIAL, [limits])
    return Decoded(search.build(saved).search(task, SearchedModels([saved.model]))[0][0])


def likely_tokens(log_probs: Tensor, label: Callable[[int], str]) -> list[list[TokenChoice]]:
    """The most probable tokens of each position [T, V], best first; `label` gives the string of an id."""
    best = log_probs.exp().topk(min(CANDIDATES, log_probs.shape[-1]), dim=-1)
    rows = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return [[TokenChoice(label(i), p) for i, p in zip(ids, values, strict=True) if p > 0] for ids, values in rows]


def probabilities_of(log_probs: Tensor, tokens: Sequence[int]) -> list[float]:
    """p of each of these tokens at its position."""
    index = torch.tensor(tokens, dtype=torch.long)[:, None]
    return [float(p) for p in log_probs.gather(1, index)[:, 0].exp()]

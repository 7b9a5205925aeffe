"""Iterative refinement (Ghazvininejad et al. 2019): fill the masked positions, mask the least certain, repeat.

Every non-autoregressive model is decoded by this loop; with one pass it is the plain model.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from qkv.kernels.labels import best_label
from qkv.models.base import Parallel
from qkv.models.parallel.base import EncodedSource, open_canvas
from qkv.search.hypothesis import not_a_number
from qkv.text.special import SPECIAL

ROWS = 1024
"""Positions whose logits are in memory at once."""


@dataclass(frozen=True)
class Guess:
    """The predictions of a pass: the `top` best tokens of each position, best first, [R, T, top] each."""

    tokens: Tensor
    log_probs: Tensor
    decoded: Tensor
    """[R, T, D], the decoder states."""
    chosen: Tensor | None = None
    """[R, T], log p of the requested token."""


@dataclass(frozen=True)
class Pass:
    """A canvas after a pass."""

    number: int
    """Number of the pass, from 1."""
    tokens: Tensor
    """[R, T], all filled; padding where a row ends."""
    scores: Tensor
    """[R, T], log p of each token when it was filled in."""
    fresh: Tensor
    """[R, T], which of them this pass filled."""
    guess: Guess
    """All predictions."""


WatchPass = Callable[[Pass], None]
"""Called after each pass; it may stop the search by raising."""


@torch.inference_mode()
def refine(
    model: Parallel,
    source: EncodedSource,
    lengths: Tensor,
    passes: int,
    never: tuple[int, ...],
    watch: WatchPass,
    top: int = 1,
    ask: int | None = None,
    penalty: float = 0.0,
) -> Pass:
    """Fill canvases of these lengths [R]; `never` are tokens that do not come out; `penalty` is taken from the logit of
    the token `ask`.

    After pass t of T, ⌊L (T - t) / T⌋ tokens of a canvas of L, those with the lowest log p, are open again. A token
    that is not opened keeps its score. Stops when nothing is left to open.
    """
    canvas = open_canvas(lengths)
    keep = canvas != SPECIAL.pad
    tokens, scores = canvas, torch.zeros(canvas.shape, device=canvas.device)
    for number in range(1, passes + 1):
        guess = look(model, source, canvas, never, top, ask, penalty)
        fresh = canvas == SPECIAL.mask
        tokens = torch.where(fresh, guess.tokens[..., 0], tokens)
        scores = torch.where(fresh, guess.log_probs[..., 0], scores)
        done = Pass(number, tokens, scores, fresh, guess)
        watch(done)
        counts = lengths * (passes - number) // passes
        if number == passes or not bool(counts.any()):
            break
        canvas = torch.where(least_sure(scores, keep, counts), SPECIAL.mask, tokens)
    return done


def look(
    model: Parallel,
    source: EncodedSource,
    canvas: Tensor,
    never: tuple[int, ...],
    top: int,
    ask: int | None,
    penalty: float,
) -> Guess:
    """One pass of the model; the head sees some positions at a time."""
    keep = canvas != SPECIAL.pad
    whole = bool(keep.all())
    decoded = model.fill(canvas, source)
    rows = decoded.flatten(0, 1) if whole else decoded[keep]
    found = [_best(model.head.logits(part, never=never), top, ask, penalty) for part in rows.split(ROWS)]
    tokens, best, asked = found[0] if len(found) == 1 else (torch.cat(parts) for parts in zip(*found, strict=True))
    if bool(best.isnan().any()):
        raise not_a_number()

    def placed(values: Tensor, empty: int) -> Tensor:
        """What is said of each position that counts, as [R, T, ...]."""
        if whole:
            return values.view(*canvas.shape, *values.shape[1:])
        return values.new_full((*canvas.shape, *values.shape[1:]), empty).index_put((keep,), values)

    chosen = placed(asked, 0) if ask is not None else None
    return Guess(placed(tokens, SPECIAL.pad), placed(best, 0), decoded, chosen)


def _best(logits: Tensor, top: int, ask: int | None, penalty: float) -> tuple[Tensor, Tensor, Tensor]:
    """The `top` best tokens of each row and log p of them [N, top], of equals the lowest token if one is wanted; and
    log p of the token `ask` [N], or of the best.
    """
    if ask is not None and penalty:
        logits[:, ask] -= penalty
    if top == 1:
        labels, log_probs, asked = best_label(logits, ask)
        return labels[:, None], log_probs[:, None], log_probs if asked is None else asked
    log_probs = logits.log_softmax(dim=1)
    found = log_probs.topk(min(top, log_probs.shape[1]), dim=1)
    return found.indices, found.values, log_probs[:, ask] if ask is not None else found.values[:, 0]


def least_sure(scores: Tensor, keep: Tensor, counts: Tensor) -> Tensor:
    """`counts` [R] positions of each row with the lowest scores; ties go to the first."""
    ranked = scores.masked_fill(~keep, torch.inf).argsort(dim=1, stable=True)
    ranks = torch.empty_like(ranked)
    ranks.scatter_(1, ranked, torch.arange(scores.shape[1], device=scores.device).expand_as(ranked))
    return keep & (ranks < counts[:, None])

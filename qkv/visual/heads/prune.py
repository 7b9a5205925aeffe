"""How many heads to remove, and what it saves."""

import time
from collections.abc import Mapping, Sequence

from qkv.core.errors import UsageError
from qkv.models.base import Model
from qkv.models.saved.folder import SavedModel
from qkv.models.transformer.head_ids import HeadId, own_attentions
from qkv.models.transformer.model import Transformer
from qkv.models.transformer.pruning import read_by_head
from qkv.translate.translator import Translator
from qkv.visual.heads.removal import RemovalScorer, removal_order
from qkv.visual.heads.weights import require_heads

ROUNDS = 5


def remove_down_to(saved: SavedModel, left: int, rank: Mapping[HeadId, float]) -> list[HeadId]:
    """The heads to remove, the lowest of `rank` first, so that `left` heads stay."""
    model = require_heads(saved.model)
    attentions = [place.heads for place in own_attentions(model)]
    order, total = removal_order(removable_heads(model), rank), sum(map(len, attentions))
    least = total - len(order)
    if not least <= left <= total:
        read = "" if least == len(attentions) else " (those that the output head reads keep all)"
        raise UsageError(
            f"--heads {left}: the model has {total} heads, and each of its {len(attentions)} attentions keeps one"
            f"{read}; give a number from {least} to {total}"
        )
    return order[: total - left]


def removable_heads(model: Transformer) -> list[list[HeadId]]:
    """The heads of each attention whose weights the output head does not read."""
    return [place.heads for place in own_attentions(model) if not read_by_head(model, place)]


def remove_within(scorer: RemovalScorer, limit: float, rank: Mapping[HeadId, float]) -> list[HeadId]:
    """As many heads as bisection finds that cost at most `limit` points of the score, the lowest of `rank` first.

    The score does not fall steadily, so more heads may be harmless; what is returned has been measured.
    """
    order = removal_order(removable_heads(scorer.model), rank)
    good, bad = 0, len(order) + 1
    while bad - good > 1:
        middle = (good + bad) // 2
        if scorer.loss(order[:middle]) <= limit:
            good = middle
        else:
            bad = middle
    return order[:good]


def parameters(model: Model) -> int:
    """The number of weights."""
    return sum(weight.numel() for weight in model.parameters())


def speed_ratio(whole: SavedModel, pruned: SavedModel, sources: Sequence[str]) -> float:
    """How many times as many tokens a second of processor time `pruned` decodes, greedily in PyTorch.

    The two take turns, and the fastest of a few rounds counts: what else the machine does hardly matters.
    """
    translators = [Translator(model, "torch", "greedy", workers=1, device="cpu") for model in (whole, pruned)]
    best = [float("inf"), float("inf")]
    for _ in range(ROUNDS):
        for place, translator in enumerate(translators):
            began = time.process_time()
            found = translator.translate(list(sources), token_scores=False)
            steps = sum(len(one.tokens) + 1 for one in found)
            best[place] = min(best[place], (time.process_time() - began) / steps)
    return best[0] / best[1]

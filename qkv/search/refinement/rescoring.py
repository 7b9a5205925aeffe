"""Noisy parallel decoding (Gu et al. 2018): an autoregressive model rescores non-autoregressive outputs."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from qkv.core.errors import UsageError
from qkv.inference.whole import fused
from qkv.models.base import Output
from qkv.models.saved.folder import SavedModel, load_model
from qkv.models.transformer.model import Transformer, require_transformer
from qkv.search.base import Search, SearchModel, SearchTask
from qkv.search.beam import BeamConfig
from qkv.search.hypothesis import Hypothesis
from qkv.search.refinement.prefix_trees import prefix_trees
from qkv.search.scoring import picked_log_probs


class Rescorer:
    """Outputs compete by log p(Y | X) / penalty(|Y|) of `model`, as in its own beam search."""

    def __init__(self, model: Transformer) -> None:
        if any(layer.cross_attention.carried_width(keys=1) for layer in model.decoder.in_order()):
            raise UsageError(
                "outputs are rescored as a tree, and cross-attention that depends on its previous position reads "
                "one output after the other; rescore with a model whose cross_attention is full"
            )
        self.model = fused(model)
        self.penalty = BeamConfig().length_penalty

    @property
    def tgt_limit(self) -> int | None:
        """The longest output that it can read."""
        most = self.model.limits.tgt
        # Its input begins with the start symbol.
        return None if most is None else most - 1

    @torch.inference_mode()
    def ranked(self, task: SearchTask, candidates: Sequence[Sequence[Hypothesis]]) -> list[list[Hypothesis]]:
        """The candidates of each sentence with their scores by `model`, best first; all of them in one pass."""
        trees = prefix_trees([[each.tokens for each in own] for own in candidates], task.src.device)
        decoded = trees.decode(self.model, self.model.encode(task.src, task.src_keep), task.src_keep)
        picked = picked_log_probs(self.model, Output(decoded), trees.following).tolist()
        scored = [
            [self._scored(each, [picked[edge] for edge in path]) for each, path in zip(own, paths, strict=True)]
            for own, paths in zip(candidates, trees.paths, strict=True)
        ]
        return [sorted(own, key=lambda one: -one.score) for own in scored]

    def _scored(self, hypothesis: Hypothesis, scores: list[float]) -> Hypothesis:
        """An output that was cut has no END."""
        scores = scores if hypothesis.ended else scores[:-1]
        return replace(hypothesis, token_scores=scores, score=math.fsum(scores) / self.penalty.at(len(scores)))


class RescoredSearch:
    """Another model chooses among the outputs of a search.

    Args:
        search: What finds the outputs.
        rescorer: What ranks them.
        outputs: How many outputs of a sentence it ranks.
    """

    def __init__(self, search: Search, rescorer: Rescorer, outputs: int) -> None:
        self.inner = search
        self.rescorer = rescorer
        self.outputs = outputs
        self.tgt_limit = rescorer.tgt_limit

    def search(self, task: SearchTask, model: SearchModel) -> list[list[Hypothesis]]:
        if task.nbest > self.outputs:
            return self.inner.search(task, model)  # which says what is wrong
        found = self.inner.search(replace(task, nbest=self.outputs), model)
        return [own[: task.nbest] for own in self.rescorer.ranked(task, found)]


def load_rescorer(path: Path, saved: SavedModel) -> Rescorer:
    """The model in `path` for the outputs of `saved`; raises UsageError if the two are incompatible."""
    other = load_model(path)
    other.model.to(saved.model.device)
    if not other.tokenizers.speaks_as(saved.tokenizers):
        raise UsageError(
            f"{path}: has another vocabulary than the model whose outputs it shall score; train that one with "
            "tokenizers: the tokenizer folder of this one's run"
        )
    if other.model.inference().steps is None:
        raise UsageError(
            f"{path}: is of the kind {other.model.kind}, which scores no given output; search.rescore takes an "
            "autoregressive model"
        )
    return Rescorer(require_transformer(other.model, "search.rescore"))

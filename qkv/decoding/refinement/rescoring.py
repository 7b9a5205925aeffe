"""Noisy parallel decoding (Gu et al. 2018): an autoregressive model chooses among the outputs of one that is not."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from qkv.data.batch import collate
from qkv.decoding.beam import BeamConfig
from qkv.decoding.hypothesis import Hypothesis
from qkv.decoding.scoring import picked_log_probs
from qkv.decoding.search import SearchTask
from qkv.errors import UsageError
from qkv.models.folder import SavedModel, load_model
from qkv.models.locate import locate_model
from qkv.models.parallel import ParallelModel
from qkv.models.seq2seq import Seq2Seq
from qkv.text.special import SPECIAL


class Rescorer:
    """Outputs compete by log p(Y | X) / penalty(|Y|) of `model`, as in its own beam search."""

    def __init__(self, model: Seq2Seq) -> None:
        self.model = model
        self.penalty = BeamConfig().length_penalty

    @property
    def tgt_limit(self) -> int | None:
        """The longest output that it can read."""
        most = self.model.tgt_embedder.positions.max_length
        # What it reads begins with the start symbol.
        return None if most is None else most - 1

    @torch.inference_mode()
    def ranked(self, task: SearchTask, candidates: Sequence[Sequence[Hypothesis]]) -> list[list[Hypothesis]]:
        """The candidates of each sentence with their scores by `model`, best first; all of them in one pass."""
        flat = [each for own in candidates for each in own]
        counts = torch.tensor([len(own) for own in candidates], device=task.src.device)
        batch = collate([()] * len(flat), [each.tokens for each in flat], SPECIAL, SPECIAL, range(len(flat)))
        batch = batch.to(task.src.device)
        # A source is read once, however many outputs it has.
        memory = self.model.encode(task.src, task.src_keep).repeat_interleave(counts, 0)
        decoded = self.model.decode(batch.tgt_in, memory, task.src_keep.repeat_interleave(counts, 0))
        keep = batch.tgt_weight > 0
        picked = picked_log_probs(self.model, decoded[keep], batch.tgt_out[keep])
        scored = iter(
            self._scored(each, scores.tolist())
            for each, scores in zip(flat, picked.split(keep.sum(dim=1).tolist()), strict=True)
        )
        return [sorted((next(scored) for _ in own), key=lambda one: -one.score) for own in candidates]

    def _scored(self, hypothesis: Hypothesis, scores: list[float]) -> Hypothesis:
        """An output that was cut has not said END."""
        scores = scores if hypothesis.ended else scores[:-1]
        return replace(hypothesis, token_scores=scores, score=math.fsum(scores) / self.penalty.at(len(scores)))


def load_rescorer(path: Path, saved: SavedModel) -> Rescorer:
    """The model in `path` for the outputs of `saved`; raises UsageError if the two do not go together."""
    other = load_model(locate_model(path))
    if not other.tokenizers.speaks_as(saved.tokenizers):
        raise UsageError(
            f"{path}: has another vocabulary than the model whose outputs it shall score; train that one with "
            "tokenizers: the tokenizer folder of this one's run"
        )
    if isinstance(other.model, ParallelModel):
        raise UsageError(
            f"{path}: is of the kind {other.model.kind}, which scores no given output; search.rescore takes an "
            "autoregressive model"
        )
    return Rescorer(other.model)

"""Word alignments of given pairs, from the attention of a model that reads both sides."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from qkv.core.errors import UsageError
from qkv.data.alignments.words import Weights, WordAlignment, word_alignment
from qkv.data.batch import Batch, collate
from qkv.data.batching import by_length
from qkv.engines.model_set import ModelLike, ModelSet
from qkv.engines.torch_engine import evaluating
from qkv.models.parallel.base import ParallelModel
from qkv.search.scoring import BATCH_TOKENS, check_lengths
from qkv.text.special import SPECIAL, SpecialIds

TextPair = tuple[str, str]


class AlignmentHead(NamedTuple):
    """Which attention weights say where a target token looks."""

    layer: int
    """Of the decoder, counted from 1."""
    head: int
    """Counted from 1; 0: the mean over the heads."""
    shifted: bool = False
    """Whether the weights are those of the step that reads the token, not of the step that predicts it."""

    def __str__(self) -> str:
        head = f"head {self.head}" if self.head else "the mean over the heads"
        return f"layer {self.layer}, {head}, at the step that {'reads' if self.shifted else 'predicts'} the word"


class Aligner:
    """Aligns pairs by the cross-attention of an autoregressive model.

    Examples:
        >>> from qkv.translate.align import Aligner, AlignmentHead
        >>> aligner = Aligner("runs/reverse")
        >>> (found,) = aligner.align([("abc", "cba")], AlignmentHead(layer=1, head=0))
        >>> found.src_words, found.tgt_words, found.weights.shape
        (['a', 'b', 'c'], ['c', 'b', 'a'], (3, 3))
    """

    def __init__(self, model: ModelLike, batch_tokens: int = BATCH_TOKENS) -> None:
        self.saved = ModelSet([model]).loaded[0]
        self.batch_tokens = batch_tokens
        if isinstance(self.saved.model, ParallelModel):
            raise UsageError(
                f"a model of the kind {self.saved.model.kind} reads no given target; give an autoregressive one"
            )

    def heads(self) -> list[AlignmentHead]:
        """Every layer and head, the means over heads included, at both steps."""
        unknown = [SPECIAL.unk]
        sizes = [weights.shape[1] for weights in self._weights(collate([unknown], [unknown], *self._special(), [0]))]
        return [
            AlignmentHead(layer, head, shifted)
            for layer, heads in enumerate(sizes, start=1)
            for head in range(heads + 1 if heads > 1 else 1)
            for shifted in (False, True)
        ]

    def align(self, pairs: Sequence[TextPair], head: AlignmentHead, first: int = 1) -> list[WordAlignment]:
        """The alignment of each pair; messages number them from `first` on."""
        found = self.align_by_all(pairs, [head], first)
        return [one for (one,) in found]

    def align_by_all(
        self, pairs: Sequence[TextPair], heads: Sequence[AlignmentHead], first: int = 1
    ) -> list[list[WordAlignment]]:
        """The alignment of each pair by each of `heads`."""
        src, tgt = self.saved.tokenizers.src, self.saved.tokenizers.tgt
        src_ids, tgt_ids = src.encode_batch([one for one, _ in pairs]), tgt.encode_batch([two for _, two in pairs])
        check_lengths([self.saved.model], src_ids, tgt_ids, first)
        found: list[list[WordAlignment]] = [[] for _ in pairs]
        lengths = [len(a) + len(b) + 2 for a, b in zip(src_ids, tgt_ids, strict=True)]
        for rows in by_length(lengths, 1, self.batch_tokens):
            batch = collate([src_ids[row] for row in rows], [tgt_ids[row] for row in rows], *self._special(), rows)
            layers = self._weights(batch)
            for place, row in enumerate(rows):
                tokens = src.tokens([*src_ids[row], src.special.eos]), tgt.tokens(tgt_ids[row])
                each = [_weights_of(head, layers[head.layer - 1][place], *map(len, tokens)) for head in heads]
                found[row] = [word_alignment(weights, *tokens) for weights in each]
        return found

    def _special(self) -> tuple[SpecialIds, SpecialIds]:
        return self.saved.tokenizers.src.special, self.saved.tokenizers.tgt.special

    @torch.no_grad()
    def _weights(self, batch: Batch) -> list[Tensor]:
        """[B, H, T, S] of each layer."""
        model = self.saved.model
        with evaluating([model]), model.watch_cross_attention() as layers:
            model(batch)
        return layers


def _weights_of(head: AlignmentHead, layer: Tensor, src_length: int, tgt_length: int) -> Weights:
    """[target tokens, source tokens] of the weights [H, T, S] of a layer, without END and padding of the target."""
    weights = layer[head.head - 1] if head.head else layer.mean(dim=0)
    first = int(head.shifted)
    return weights[first : first + tgt_length, :src_length].float().numpy()

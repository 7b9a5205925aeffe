"""Word alignments of given pairs, from the attention of a model that reads both sides."""

from collections.abc import Sequence

from qkv.data.alignments.words import WordAlignment, word_alignment
from qkv.data.batch import collate
from qkv.data.batching import by_length
from qkv.engines.alignments import AlignmentHead as AlignmentHead
from qkv.engines.alignments import alignment_heads, cross_attention
from qkv.engines.model_set import ModelLike, ModelSet
from qkv.engines.torch_engine import evaluating
from qkv.search.scoring import BATCH_TOKENS, check_lengths
from qkv.text.special import SpecialIds

TextPair = tuple[str, str]


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

    def heads(self) -> list[AlignmentHead]:
        """Every layer and head, the means over heads included, at both steps."""
        with evaluating([self.saved.model]):
            return alignment_heads(self.saved.model)

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
            with evaluating([self.saved.model]):
                layers = cross_attention(self.saved.model, batch)
            for place, row in enumerate(rows):
                tokens = src.tokens([*src_ids[row], src.special.eos]), tgt.tokens(tgt_ids[row])
                each = [head.of(layers, place, len(tokens[1]), len(tokens[0])).numpy() for head in heads]
                found[row] = [word_alignment(weights, *tokens) for weights in each]
        return found

    def _special(self) -> tuple[SpecialIds, SpecialIds]:
        return self.saved.tokenizers.src.special, self.saved.tokenizers.tgt.special

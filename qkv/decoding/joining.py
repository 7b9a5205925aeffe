"""The translations of the parts of a text as the translation of the text."""

from collections.abc import Sequence
from dataclasses import replace

from qkv.decoding.splitting import Split
from qkv.decoding.translation import Translation


def joined(each: Sequence[Translation], split: Split) -> Translation:
    """Part after part, with the white space between them that the source had.

    Of the n-best the n-th outputs of the parts belong together; a part that has fewer gives its last one.
    """
    if len(each) == 1:
        return each[0]
    ranks = 1 + max(len(one.alternatives) for one in each)
    ranked = [[one, *one.alternatives] for one in each]
    whole = [_joined([own[min(rank, len(own) - 1)] for own in ranked], split) for rank in range(ranks)]
    return replace(whole[0], alternatives=whole[1:])


def _joined(each: Sequence[Translation], split: Split) -> Translation:
    gaps = [*split.gaps, ""]
    return Translation(
        text="".join(one.text + gap for one, gap in zip(each, gaps, strict=True)),
        score=sum(one.score for one in each),
        tokens=[token for one in each for token in one.tokens],
        token_scores=[score for one in each for score in one.token_scores],
        src_tokens=[token for one in each for token in one.src_tokens],
        unknown=[piece for one in each for piece in one.unknown],
        src_cut=any(one.src_cut for one in each),
        out_cut=any(one.out_cut for one in each),
        alignment=_alignment(each),
        parts=len(each),
        split_at=split.at,
        passes=None if each[0].passes is None else sum(one.passes or 0 for one in each),
    )


def _alignment(each: Sequence[Translation]) -> list[list[float]] | None:
    """Each part looks at itself alone."""
    if any(one.alignment is None for one in each):
        return None
    width = sum(len(one.src_tokens) for one in each)
    rows, before = [], 0
    for one in each:
        after = width - before - len(one.src_tokens)
        rows += [[0.0] * before + row + [0.0] * after for row in one.alignment or []]
        before += len(one.src_tokens)
    return rows

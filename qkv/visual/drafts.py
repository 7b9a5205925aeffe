"""One run of speculative decoding: the draft of each pass, the accepted tokens, and the model's correction."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from qkv.data.batch import padded
from qkv.models.saved.folder import SavedModel
from qkv.search.base import SearchTask
from qkv.search.greedy import GreedyConfig, greedy_rules
from qkv.search.hypothesis import Hypothesis
from qkv.search.protocol import BlockFunction, BlockOutput, BlocksState
from qkv.search.speculative.blocks import ModelBlocks
from qkv.search.speculative.drafters import DrafterConfig
from qkv.search.speculative.loop import FullPace, draft_and_verify
from qkv.text.special import SPECIAL
from qkv.visual.rows import TokenCell, draw_rows, sample
from qkv.visual.source import source_ids
from qkv.visual.svg import Entry

STYLE = """
  .right rect { fill: #d9f0e3; stroke: #1a7f4b }
  .said rect { fill: #d6e6fb; stroke: #1f5fb0; stroke-width: 2 }
  .wrong text { text-decoration: line-through; opacity: .6 }
  @media (prefers-color-scheme: dark) {
    .right rect { fill: #123d28; stroke: #3fb97a }
    .said rect { fill: #16304f; stroke: #5b9bea }
  }
"""


@dataclass(frozen=True)
class DraftPass:
    """One pass."""

    start: int
    """The number of tokens before it."""
    right: list[str]
    """The tokens of the draft that were kept."""
    said: str
    """The model's own token after them."""
    wrong: list[str]
    """The rest of the draft."""


class _WatchedBlocks:
    """Records the input of each pass."""

    def __init__(self, blocks: BlockFunction) -> None:
        self.blocks = blocks
        self.given: list[tuple[int, list[int]]] = []

    def start(self, src: Tensor, src_keep: Tensor) -> tuple[Tensor, BlocksState]:
        return self.blocks.start(src, src_keep)

    def extend(self, tokens: Tensor, state: Any) -> tuple[BlockOutput, BlocksState]:
        self.given.append((state.lengths[0], tokens[0, 1:].tolist()))
        return self.blocks.extend(tokens, state)


def watch_drafts(
    saved: SavedModel, text: str, draft: DrafterConfig, search: GreedyConfig, max_src_tokens: int | None = None
) -> tuple[list[DraftPass], Hypothesis]:
    """Every pass over one text with drafts of full length, and the output."""
    ids = source_ids(saved, text, max_src_tokens)
    src, src_keep = padded([ids], SPECIAL.pad)
    limits = search.within(saved.config.length_limit).limits(len(ids), saved.model.limits.tgt)
    task, blocks = SearchTask(src, src_keep, SPECIAL, [limits]), _WatchedBlocks(ModelBlocks(saved.model))
    drafter, pace = draft.build(saved), FullPace(draft.block)
    best = draft_and_verify(blocks, drafter, pace, task, greedy_rules(task, search.no_repeat_ngram))[0][0]
    whole = [*best.tokens, SPECIAL.eos] if best.ended else best.tokens
    ends = [*(start for start, _ in blocks.given[1:]), len(whole)]

    def words(tokens: list[int]) -> list[str]:
        return ["END" if token == SPECIAL.eos else saved.tokenizers.tgt.tokens([token])[0] for token in tokens]

    passes = []
    for (start, guess), end in zip(blocks.given, ends, strict=True):
        right = end - start - 1
        passes.append(DraftPass(start, words(guess[:right]), words(whole[end - 1 : end])[0], words(guess[right:])))
    return passes, best


LEGEND = (
    Entry(sample("right"), "drafted, and right"),
    Entry(sample("said"), "said by the model itself"),
    Entry(sample("wrong"), "drafted, and wrong"),
)


def draw_drafts(passes: list[DraftPass], title: str) -> str:
    """A standalone SVG: a row for each pass; green was drafted and right, blue is said by the model, grey was wrong."""
    rows = [
        [*((word, "right") for word in each.right), (each.said, "said"), *((word, "wrong") for word in each.wrong)]
        for each in passes
    ]
    cells = [
        [TokenCell(word, each.start + place, kind) for place, (word, kind) in enumerate(row)]
        for each, row in zip(passes, rows, strict=True)
    ]
    return draw_rows(cells, title, LEGEND, STYLE)

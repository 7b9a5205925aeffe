"""One run of draft and verify: what was drafted in each pass, what of it was right, and what the model said instead."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from qkv.data.batch import padded
from qkv.decoding.blocks import BlockFunction, BlockOutput, BlocksState, blocks_of
from qkv.decoding.draft_loop import draft_and_verify
from qkv.decoding.draft_pace import FullPace
from qkv.decoding.drafters import DrafterConfig
from qkv.decoding.greedy import GreedyConfig
from qkv.decoding.hypothesis import Hypothesis
from qkv.decoding.search import SearchTask
from qkv.models.folder import SavedModel
from qkv.text.special import SPECIAL
from qkv.visual.beam_tree import xml_text
from qkv.visual.source import source_ids

COLUMN, ROW, MARGIN, LABEL = 74, 40, 16, 64
STYLE = """
  svg { background: #fff; font: 12px system-ui, sans-serif; color: #222 }
  rect { fill: #f2f4f7; stroke: #98a2b3 }
  .right rect { fill: #d9f0e3; stroke: #1a7f4b }
  .said rect { fill: #d6e6fb; stroke: #1f5fb0; stroke-width: 2 }
  .wrong { text-decoration: line-through; opacity: .5 }
  text { fill: currentColor; text-anchor: middle }
  .label { text-anchor: end; opacity: .7 }
  @media (prefers-color-scheme: dark) {
    svg { background: #16181d; color: #e6e6e6 }
    rect { fill: #262a33; stroke: #667085 }
    .right rect { fill: #123d28; stroke: #3fb97a }
    .said rect { fill: #16304f; stroke: #5b9bea }
  }
"""


@dataclass(frozen=True)
class DraftPass:
    """One pass."""

    start: int
    """How many tokens stood before it."""
    right: list[str]
    """The tokens of the draft that were kept."""
    said: str
    """What the model said after them."""
    wrong: list[str]
    """The rest of the draft."""


class _WatchedBlocks:
    """Remembers what each pass was given."""

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
    limits = search.within(saved.config.length_limit).limits(len(ids), saved.model.tgt_embedder.positions.max_length)
    task, blocks = SearchTask(src, src_keep, SPECIAL, [limits]), _WatchedBlocks(blocks_of(saved.model))
    drafter, pace = draft.build(saved), FullPace(draft.block)
    best = draft_and_verify(blocks, drafter, pace, task, search.rules(task))[0][0]
    whole = [*best.tokens, SPECIAL.eos] if best.ended else best.tokens
    ends = [*(start for start, _ in blocks.given[1:]), len(whole)]

    def words(tokens: list[int]) -> list[str]:
        return ["END" if token == SPECIAL.eos else saved.tokenizers.tgt.tokens([token])[0] for token in tokens]

    passes = []
    for (start, guess), end in zip(blocks.given, ends, strict=True):
        right = end - start - 1
        passes.append(DraftPass(start, words(guess[:right]), words(whole[end - 1 : end])[0], words(guess[right:])))
    return passes, best


def draw_drafts(passes: list[DraftPass], title: str) -> str:
    """A standalone SVG: a row for each pass; green was drafted and right, blue is said by the model, grey was wrong."""
    widest = max(each.start + len(each.right) + max(1, len(each.wrong)) for each in passes)
    width, height = 2 * MARGIN + LABEL + COLUMN * (widest + 1), 2 * MARGIN + ROW * len(passes)
    body = [drawn for number, each in enumerate(passes) for drawn in _row(number, each)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">',
            f"<title>{xml_text(title)}</title>",
            f"<style>{STYLE}</style>",
            *body,
            "</svg>\n",
        ]
    )


def _row(number: int, each: DraftPass) -> list[str]:
    top = MARGIN + number * ROW
    cells = [("right", word) for word in each.right] + [("said", each.said)] + [("wrong", word) for word in each.wrong]
    drawn = [f'<text class="label" x="{MARGIN + LABEL - 10}" y="{top + 20}">pass {number + 1}</text>']
    for place, (kind, word) in enumerate(cells, start=each.start):
        x = MARGIN + LABEL + place * COLUMN
        label = word if len(word) < 10 else word[:8] + "…"
        drawn.append(
            f'<g class="{kind}"><rect x="{x}" y="{top}" width="{COLUMN - 8}" height="{ROW - 10}" rx="5"/>'
            f'<text x="{x + (COLUMN - 8) // 2}" y="{top + 20}">{xml_text(label)}</text></g>'
        )
    return drawn

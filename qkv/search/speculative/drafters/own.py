"""The model's own draft head (`model.draft`)."""

from collections.abc import Sequence
from typing import Literal, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from qkv.core.errors import UsageError
from qkv.functional.parallel.ctc import collapse
from qkv.inference.layers import (
    EncoderPass,
    FusedEncoderLayer,
    by_columns,
    copied_by_columns,
    lay_by_columns,
    padding_mask,
)
from qkv.layers.attention.base import Block
from qkv.layers.attention.context import AttentionContext
from qkv.models.draft_heads.blockwise import BlockwiseHeads
from qkv.models.draft_heads.source import SourceHead
from qkv.models.heads.linear import output_matrix
from qkv.models.saved.folder import SavedModel
from qkv.models.transformer.encoder import EncoderLayer
from qkv.models.transformer.model import require_transformer
from qkv.search.speculative.drafters.base import (
    BlockLength,
    Checked,
    Drafter,
    DrafterConfig,
    Drafts,
    DraftSources,
    drafters,
)
from qkv.search.speculative.drafters.guide import GuidedDrafts
from qkv.text.special import NEVER_OUTPUT, SPECIAL


@drafters.register
class OwnConfig(DrafterConfig):
    """The model's own draft head."""

    kind: Literal["own"] = "own"
    block: BlockLength = 16

    def build(self, saved: SavedModel) -> Drafter:
        model = require_transformer(saved.model, "the drafter own")
        head, weight = model.draft_head, output_matrix(model.head)
        if isinstance(head, BlockwiseHeads):
            return BlockwiseDrafter(head, weight)
        if isinstance(head, SourceHead):
            return SourceDrafter(head, weight)
        raise UsageError("the model has no draft head (model.draft); train one, or use the drafter jacobi or input")


class BlockwiseDrafter:
    """Each pass of the model also predicts the next tokens (Stern 2018)."""

    def __init__(self, head: BlockwiseHeads, weight: Tensor) -> None:
        self.head = copied_by_columns(head)
        self.weight = by_columns(weight.detach())

    def begin(self, sources: DraftSources) -> Drafts:
        return BlockwiseDrafts(self, len(sources.src))

    def guess(self, decoded: Tensor) -> list[list[int]]:
        """The states [R, D] of the newest tokens to a draft of the next ones."""
        logits = F.linear(self.head(decoded), self.weight)
        for token in NEVER_OUTPUT:
            logits.select(-1, token).fill_(-torch.inf)
        found: list[list[int]] = logits.argmax(dim=-1).t().tolist()
        return found


class BlockwiseDrafts:
    """No draft before the first pass."""

    def __init__(self, drafter: BlockwiseDrafter, sentences: int) -> None:
        self.drafter = drafter
        self.guesses: list[list[int]] = [[] for _ in range(sentences)]

    def propose(self, sentence: int, kept: Sequence[int], count: int) -> Sequence[int]:
        return self.guesses[sentence][:count]

    def learn(self, checked: Checked) -> None:
        rows = torch.arange(len(checked.accepted), device=checked.decoded.device)
        newest = checked.decoded[rows, torch.tensor(checked.accepted, device=rows.device)]
        for sentence, guess in zip(checked.sentences, self.drafter.guess(newest), strict=True):
            self.guesses[sentence] = guess


class SourceDrafter:
    """Drafts the whole output from the source, before the first pass."""

    def __init__(self, head: SourceHead, weight: Tensor) -> None:
        self.head = copied_by_columns(head)
        self.layers = [FusedEncoderLayer(cast(EncoderLayer, layer)) for layer in self.head.layers]
        lay_by_columns(*(layer.attention for layer in self.layers))
        self.weight = by_columns(torch.cat([weight, head.blank]).detach())

    def begin(self, sources: DraftSources) -> Drafts:
        head, opened = self.head, self.head.opened(sources.memory)
        pos = torch.arange(opened.shape[1], device=opened.device)
        context = AttentionContext(pos, pos, keep=head.kept(sources.src_keep))
        layers = EncoderPass(self.layers, Block(context, len(pos), padding_mask(context.keep, opened)))
        rows = opened.flatten(0, 1)
        for number in range(len(self.layers)):
            rows = layers(number, rows)
        vectors = head.final(rows.view(opened.shape))
        # PyTorch's argmax is not vectorised.
        paths = F.linear(vectors, self.weight).cpu().numpy().argmax(axis=-1).tolist()
        lengths = sources.src_keep.sum(dim=1).tolist()
        blank, each = len(self.weight) - 1, head.upsample
        drafts = [collapse(path[: each * length], blank) for path, length in zip(paths, lengths, strict=True)]
        return GuidedDrafts([[*draft, SPECIAL.eos] for draft in drafts])

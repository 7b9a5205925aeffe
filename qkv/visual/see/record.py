"""A seen sentence as plain data, which the page reads: see `web/src/data/record.ts`, where the same is typed."""

from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from qkv.core.arrays import PackedArray, packed, packed_coarsely
from qkv.models.transformer.config import TransformerConfig
from qkv.models.transformer.model import Transformer
from qkv.visual.beam_tree import Node
from qkv.visual.positions import schemes_of
from qkv.visual.see.architecture import boxes
from qkv.visual.see.attentions import AttentionPass, HeadVectors
from qkv.visual.see.sentence import SeenSentence
from qkv.visual.see.trace import SublayerPass
from qkv.visual.wirings import wiring_of

FINE = 128 * 128
"""Weights of a longer sentence are bytes, in steps of 1/255."""
VECTOR_BYTES = 8 * 2**20
"""If all vectors take more, they are left out, and the equation view says so."""
LONGEST_POSITIONS = 64


def as_record(seen: SeenSentence) -> dict[str, Any]:
    """All that the page shows of one sentence and one model."""
    vectors = Vectors(seen)
    copied = seen.copied
    return {
        "model": _model(seen),
        "search": seen.search.model_dump(mode="json", exclude_none=True),
        "text": seen.text,
        "output": seen.output,
        "score": seen.decoded.best.score,
        "ended": seen.decoded.best.ended,
        "src": seen.src_tokens,
        "read": seen.read,
        "written": seen.written,
        "probabilities": seen.probabilities,
        "candidates": [[[each.token, each.probability] for each in step] for step in seen.candidates],
        "beam": _tree(seen.decoded.beam),
        "passes": [[[cell.label, cell.probability, cell.fresh] for cell in row] for row in seen.decoded.passes],
        "drafts": [[each.start, each.right, each.said, each.wrong] for each in seen.decoded.drafts],
        "delays": seen.delays,
        "embedded": [[asdict(token) for token in side] for side in seen.embedded],
        "copied": None if copied is None else packed(copied),
        "halted": seen.halted,
        "attentions": [_attention(each, vectors) for each in seen.attentions],
        "feed_forwards": vectors.feed_forwards(),
        "vectors": vectors.pool,
        "boxes": [asdict(box) for box in boxes(seen.saved.model, len(seen.src_tokens), len(seen.written))],
        "positions": _positions(seen),
        "wiring": _wiring(seen),
    }


class Vectors:
    """A pool of vectors [n, D]: what one sublayer writes is what the next one reads, and is written once."""

    def __init__(self, seen: SeenSentence) -> None:
        self.pool: list[PackedArray] = []
        self._seen = seen
        self._known: dict[str, int] = {}
        rows = [part for passes in seen.trace.sublayers.values() for each in passes for part in (each.out, each.result)]
        heads = [part for each in seen.attentions if (own := each.vectors) for part in (own.q, own.k, own.v)]
        self.wanted = 2 * sum(part.numel() for part in rows + heads) <= VECTOR_BYTES
        """Whether they are small enough."""

    def add(self, vectors: Tensor) -> int:
        """Its index in the pool."""
        made = packed(vectors)
        if made["data"] not in self._known:
            self._known[made["data"]] = len(self.pool)
            self.pool.append(made)
        return self._known[made["data"]]

    def sublayer(self, each: SublayerPass) -> dict[str, int]:
        return {
            "x": self.add(each.x),
            "h": self.add(each.h),
            "out": self.add(each.out),
            "result": self.add(each.result),
        }

    def of(self, attention: AttentionPass) -> dict[str, int] | None:
        """The sublayer around an attention."""
        passes = self._seen.trace.sublayers.get(attention.name, [])
        same = [each for each in self._seen.attentions if each.name == attention.name]
        place = same.index(attention)
        return self.sublayer(passes[place]) if place < len(passes) else None

    def feed_forwards(self) -> list[dict[str, Any]]:
        found = []
        for name, passes in self._seen.trace.sublayers.items() if self.wanted else ():
            side, _, number, part = name.split(".")
            layers = sum(key.startswith(f"{side}.") and key.endswith(part) for key in self._seen.trace.sublayers)
            if part == "feed_forward":
                for place, each in enumerate(passes):
                    layer = int(number) + place * layers
                    found.append({"side": side, "layer": layer, "name": name, **self.sublayer(each)})
        return found


def _attention(attention: AttentionPass, vectors: Vectors) -> dict[str, Any]:
    weights = attention.weights
    fine = weights[0].numel() <= FINE
    made = {
        "name": attention.name,
        "side": attention.side,
        "layer": attention.layer,
        "weights": packed(weights) if fine else packed_coarsely(weights),
        "mask": None,
        "heads": None,
        "sublayer": None,
    }
    own = attention.vectors
    if own is not None and own.mask is not None:
        made["mask"] = packed_coarsely(own.mask)
    if own is not None and vectors.wanted:
        made["heads"] = _heads(own)
        made["sublayer"] = vectors.of(attention)
    return made


def _heads(own: HeadVectors) -> dict[str, PackedArray | None]:
    return {
        "q": packed(own.q),
        "k": packed(own.k),
        "v": packed(own.v),
        "bias": None if own.bias is None else packed(own.bias),
        "joined": None if own.joined is None else packed(own.joined),
    }


def _model(seen: SeenSentence) -> dict[str, Any]:
    model, config = seen.saved.model, seen.saved.config.model
    about: dict[str, Any] = {
        "name": seen.name,
        "kind": model.kind,
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "vocabulary": [len(seen.saved.tokenizers.src), len(seen.saved.tokenizers.tgt)],
        "settings": {},
    }
    if isinstance(config, TransformerConfig):
        keys = ("d_model", "num_heads", "d_ff", "encoder_layers", "decoder_layers")
        parts = ("positions", "residual", "feed_forward", "wiring", "stack", "decoder", "head")
        about["settings"] = {key: getattr(config, key) for key in keys}
        about["settings"] |= {part: getattr(config, part).kind for part in parts}
    return about


def _tree(nodes: list[Node]) -> list[dict[str, Any]]:
    """Parents as indices; -1: none."""
    places = {id(node): place for place, node in enumerate(nodes)}
    return [
        {
            "label": node.label,
            "total": node.total,
            "parent": -1 if node.parent is None else places[id(node.parent)],
            "step": node.step,
            "place": node.place,
            "finished": node.finished,
            "best": node.best,
            "score": node.score,
        }
        for node in nodes
    ]


@torch.no_grad()
def _positions(seen: SeenSentence) -> dict[str, Any] | None:
    """The position vectors of this sentence, and what positions alone do to the scores of equal tokens."""
    model = seen.saved.model
    if not isinstance(model, Transformer):
        return None
    length = max(2, min(LONGEST_POSITIONS, max(len(seen.src_tokens), len(seen.written))))
    embedder = model.src_embedder
    width = embedder.tokens.weight.shape[1]
    added = embedder.positions.embed(torch.zeros(1, length, width), torch.arange(length))[0]
    panels = schemes_of(model, length)
    return {
        "kind": type(embedder.positions).__name__,
        "added": packed(added) if bool(added.any()) else None,
        "panels": [
            [title, packed(panel.nan_to_num(0.0)), packed_coarsely(~panel.isnan())] for title, panel in panels.items()
        ],
    }


def _wiring(seen: SeenSentence) -> PackedArray | None:
    """[decoder layers, encoder layers + 1]: how much each decoder layer reads of each state of the encoder."""
    model = seen.saved.model
    if not isinstance(model, Transformer):
        return None
    with torch.enable_grad():
        return packed(wiring_of(model))

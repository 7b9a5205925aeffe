"""The attention weights of a model for a pair of texts, a matrix for each head."""

from qkv.core.errors import UsageError
from qkv.data.batch import collate
from qkv.models.saved.folder import SavedModel
from qkv.models.transformer.head_ids import Side
from qkv.search.scoring import check_lengths
from qkv.text.special import NAMES, SPECIAL
from qkv.visual.figures.canvas import PaperFigure, matrices
from qkv.visual.heads.weights import heads_of, require_heads, weights_of


def attention_figure(saved: SavedModel, src: str, tgt: str, side: Side, layer: int | None = None) -> PaperFigure:
    """A matrix for each head of one side, of one layer (counted from 1) or of all; queries run down, keys right."""
    model = require_heads(saved.model)
    heads = heads_of(model)[side]
    layers = sorted({head.layer for head in heads})
    if layer is not None and layer not in layers:
        raise UsageError(f"--layer {layer}: the {side} has layers 1 to {layers[-1]}")
    src_ids, tgt_ids = saved.tokenizers.linked(
        src, tgt, saved.tokenizers.src.encode(src), saved.tokenizers.tgt.encode(tgt)
    )
    check_lengths([model], [src_ids], [tgt_ids], 1)
    seen = {one.side: one for one in weights_of(model, collate([src_ids], [tgt_ids], SPECIAL, SPECIAL, [0]))}[side]
    src_tokens = [*saved.tokenizers.src.tokens(src_ids), NAMES[SPECIAL.eos]]
    tgt_tokens = [NAMES[SPECIAL.bos], *saved.tokenizers.output_of(src, src_ids).tokens(tgt_ids)]
    rows = src_tokens if side == "encoder" else tgt_tokens
    columns = tgt_tokens if side == "decoder" else src_tokens
    weights = seen.weights[0].double().numpy()
    panels = {
        f"layer {head.layer}, head {head.head}": weights[place]
        for place, head in enumerate(heads)
        if layer in (None, head.layer)
    }
    return matrices(panels, rows, columns, f"Attention of the {side}: {src}")

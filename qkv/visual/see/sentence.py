"""One sentence through one model: what it read and wrote, and everything that was computed between."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from qkv.data.batch import collate, padded
from qkv.engines.model_set import ModelLike
from qkv.engines.torch_engine import evaluating
from qkv.layers.attention.head_passes import capture_heads
from qkv.layers.attention.recording import capture_attention
from qkv.models.base import Output
from qkv.models.decoders.ctc import CtcModel
from qkv.models.heads.copying import CopyHead
from qkv.models.saved.folder import SavedModel
from qkv.models.transformer.channels import haltings
from qkv.models.transformer.model import Transformer
from qkv.search.base import SearchConfig
from qkv.text.special import SPECIAL
from qkv.translate.output import TokenChoice
from qkv.translate.translator import Translator
from qkv.visual.passes import BLANK
from qkv.visual.see.attentions import AttentionPass, attention_passes
from qkv.visual.see.decoding import Decoded, decode_watched, likely_tokens, probabilities_of
from qkv.visual.see.embeddings import EmbeddedToken, embedded_tokens
from qkv.visual.see.streaming import reading_delays
from qkv.visual.see.trace import Trace, trace_sublayers
from qkv.visual.source import source_ids


@dataclass(frozen=True)
class SeenSentence:
    """A text, its output, and the pass of the model over both; row t is the step that writes `written[t]`."""

    name: str
    saved: SavedModel
    search: SearchConfig
    text: str
    output: str
    src_tokens: list[str]
    """The source as the model read it, END included."""
    read: list[str]
    """What the decoder read at each step: the start symbol and the output before it, or an open canvas."""
    written: list[str]
    """What it wrote."""
    probabilities: list[float]
    """p of each of these."""
    candidates: list[list[TokenChoice]]
    """The most probable tokens of each step, best first."""
    decoded: Decoded
    attentions: list[AttentionPass]
    trace: Trace
    copied: Tensor | None
    """[T, S], p(step t copies source position s), of a head that copies."""
    halted: list[list[int]]
    """The steps of each source and each target token, of a stack with adaptive depth; else empty."""
    delays: tuple[list[str], list[int]] | None
    """The tokens that a streaming model writes, and how many source tokens it had read for each; None: another one."""
    embedded: tuple[list[EmbeddedToken], list[EmbeddedToken]]
    """The tokens of the source and of the output in their embedding tables, of a Transformer; else empty."""


def see_sentence(
    model: ModelLike, text: str, search: SearchConfig | str | Mapping[str, Any] | None = None, name: str | None = None
) -> SeenSentence:
    """Decode a text, and run the model once more over its output with everything recorded.

    `name` is what the model is called; by default the name of its folder.
    """
    translator = Translator(model, engine="torch", search=search, draft="none", device="cpu")
    saved = translator.models.loaded[0]
    ids = source_ids(saved, text, translator.max_src_tokens)
    with evaluating([saved.model]):
        decoded = decode_watched(saved, text, ids, translator.search)
        return _seen(name or _name(translator), saved, translator.search, text, ids, decoded)


def _name(translator: Translator) -> str:
    folders = translator.models.folders
    if not folders:
        return "model"
    return folders[0].parent.name if folders[0].name == "best" else folders[0].name


@torch.no_grad()
def _seen(
    name: str, saved: SavedModel, search: SearchConfig, text: str, ids: list[int], decoded: Decoded
) -> SeenSentence:
    model, words = saved.model, saved.tokenizers.output_of(text, ids)
    label = _labels(saved, words.tokens)
    with (
        capture_attention(model) as record,
        capture_heads() as heads,
        trace_sublayers(model) as trace,
        haltings.listen() as halted,
    ):
        read, written, result = _pass(saved, ids, decoded)
    log_probs = model.head.log_probs(*result, never=decoded.never)[0]
    copied = None
    if isinstance(model.head, CopyHead):
        copied = model.head.copy_log_probs(*result)[0].exp()
    return SeenSentence(
        name,
        saved,
        search,
        text,
        words.decode(decoded.best.tokens),
        saved.tokenizers.source_tokens(text, ids),
        [label(i) for i in read],
        [label(i) for i in written],
        probabilities_of(log_probs, written),
        likely_tokens(log_probs, label),
        decoded,
        attention_passes(model, record, heads),
        trace,
        copied,
        [each.steps[0].tolist() for each in halted],
        reading_delays(saved, text),
        _embedded(saved, ids, written, label),
    )


def _embedded(
    saved: SavedModel, ids: list[int], written: list[int], label: Callable[[int], str]
) -> tuple[list[EmbeddedToken], list[EmbeddedToken]]:
    model = saved.model
    if not isinstance(model, Transformer):
        return [], []
    names = saved.tokenizers.src.tokens
    # A decoder may have ids of its own after the vocabulary.
    src = model.src_embedder.tokens.weight[: len(saved.tokenizers.src)]
    tgt = model.tgt_embedder.tokens.weight[: len(saved.tokenizers.tgt)]
    return embedded_tokens(src, ids, lambda i: names([i])[0]), embedded_tokens(tgt, written, label)


def _labels(saved: SavedModel, tokens: Callable[[list[int]], list[str]]) -> Callable[[int], str]:
    blank = saved.model.blank if isinstance(saved.model, CtcModel) else None
    return lambda i: BLANK if i == blank else tokens([i])[0]


def _pass(saved: SavedModel, ids: list[int], decoded: Decoded) -> tuple[list[int], list[int], Output]:
    """What the decoder reads and writes at each position of the pass, and the states."""
    model, best = saved.model, decoded.best
    if decoded.passes:
        # The last pass: what it filled was open before.
        assert isinstance(model, Transformer)
        last = decoded.passes[-1]
        canvas = [SPECIAL.mask if cell.fresh else cell.token for cell in last]
        src, src_keep = padded([ids], SPECIAL.pad)
        states = model.states(src, src_keep, torch.tensor([canvas]))
        return canvas, [cell.token for cell in last], Output(states)
    # An output that was cut has no END: its last token is not read.
    known = best.tokens if best.ended else best.tokens[:-1]
    batch = collate([ids[:-1]], [known], SPECIAL, SPECIAL, [0])
    written = [*best.tokens, SPECIAL.eos] if best.ended or not best.tokens else best.tokens
    return batch.tgt_in[0].tolist(), written, model(batch)

"""A non-autoregressive model as one ONNX graph without a loop: source ids in; tokens, their log p, lengths out.

Reading the canvas (collapsing paths, cutting at END) is not part of the graph: see `engines/onnx_engine.py`.
"""

import math
from pathlib import Path

import torch

import qkv.export.onnx_kinds  # noqa: F401  # registers them
from qkv.config import dump_config
from qkv.core.errors import UsageError
from qkv.core.files import new_folder
from qkv.export.base import exporters
from qkv.export.onnx_canvas import OnnxCanvas, Read, onnx_canvases, opened, scaled_embedding
from qkv.export.onnx_graph import Graph, OnnxLayers, Value, as_array
from qkv.export.whitelist import NEVER, SHARING, AllowedConfigs, output_bias, unknown_parts
from qkv.functional.positions import sinusoidal
from qkv.layers.feed_forward import GeluConfig, ReluConfig, SwigluConfig
from qkv.layers.positions.learned import Learned, LearnedConfig
from qkv.layers.positions.sinusoidal import SinusoidalConfig
from qkv.layers.residual import PostNormConfig, PreNormConfig
from qkv.models.heads.linear import output_matrix
from qkv.models.parallel.base import ParallelModel
from qkv.models.saved.folder import CONFIG, TOKENIZER, SavedConfig, SavedModel
from qkv.models.transformer.config import TransformerConfig
from qkv.models.transformer.model import Embedder
from qkv.models.transformer.pruning import with_even_heads
from qkv.text.special import SPECIAL

WHAT = "onnx"
FORMAT = "2"
"""Of the graph's inputs and outputs; an engine runs graphs of its own format only."""
"""What the manifest of an export says."""
GRAPH = "model.onnx"
QUANTIZATIONS = ("int8", "float32")
ROWS = 4096
"""The longest canvas with sinusoidal positions: the graph holds a table of them."""
ALLOWED: AllowedConfigs = {
    "residual": (PostNormConfig, PreNormConfig),
    "positions": (SinusoidalConfig, LearnedConfig),
    "feed_forward": (ReluConfig, GeluConfig, SwigluConfig),
}


def onnx_obstacles(config: SavedConfig) -> list[str]:
    """The reasons why a model cannot be exported as one graph; empty: it can."""
    reasons = unknown_parts(config.model, ALLOWED, "ONNX", (*SHARING, "decoder"))
    if not isinstance(config.model, TransformerConfig):
        return reasons
    if config.model.decoder.autoregressive:
        reasons.insert(0, "an autoregressive model is a loop, not one graph; export it to ctranslate2")
    elif config.model.decoder.kind not in onnx_canvases:
        reasons.append(f"ONNX has no form of model.decoder.kind {config.model.decoder.kind}")
    return reasons


def export_onnx(saved: SavedModel, folder: Path, quantization: str | None = None) -> None:
    """Write the graph, the tokenizers and the configuration to a new folder; the model is not changed."""
    reasons = onnx_obstacles(saved.config)
    if quantization is not None and quantization not in QUANTIZATIONS:
        reasons.append(f"quantization {quantization} is unknown, choose one of {', '.join(QUANTIZATIONS)}")
    if reasons:
        raise UsageError(f"the model cannot be exported to ONNX: {'; '.join(reasons)}")
    graph = as_graph(saved, int8=quantization == "int8")
    with new_folder(folder, {"what": WHAT, "quantization": quantization}) as temporary:
        (temporary / GRAPH).write_bytes(graph)
        (temporary / CONFIG).write_text(dump_config(saved.config), encoding="utf-8")
        (temporary / TOKENIZER).mkdir()
        saved.config.text.save(saved.tokenizers, temporary / TOKENIZER)


@torch.no_grad()
def as_graph(saved: SavedModel, int8: bool = False) -> bytes:
    """src [B, S], src_lengths [B], limits [B] -> tokens [B, T], log_probs [B, T], lengths [B].

    Sources are padded on the right; outputs beyond the length of a canvas are undefined.
    """
    saved = with_even_heads(saved)
    model, config = saved.model, saved.config.model
    assert isinstance(model, ParallelModel)
    assert isinstance(config, TransformerConfig)
    graph = Graph(int8)
    layers = OnnxLayers(graph, config.feed_forward)
    src_real = graph.cast("src_lengths", "INT32")
    embedded = graph.op("Gather", scaled_embedding(graph, model.src_embedder), "src")
    width = graph.op("Squeeze", graph.op("Shape", "src", start=1, end=2))
    memory = layers.encoder(model.encoder, _placed(graph, model.src_embedder, embedded, width), src_real)
    read = Read("src", "src_lengths", memory, "limits")
    form = onnx_canvases[model.kind]
    lengths = form.lengths(graph, model, read)
    width = graph.op("ReduceMax", lengths, keepdims=0)
    canvas = _placed(graph, model.tgt_embedder, opened(graph, model, read, lengths, width), width)
    decoded = layers.decoder(model.decoder, canvas, graph.cast(lengths, "INT32"), memory, src_real)
    tokens, log_probs = _best(graph, decoded, model, form)
    for value, name in ((tokens, "tokens"), (log_probs, "log_probs"), (lengths, "lengths")):
        graph.rename(value, name)
    about = {
        "format": FORMAT,
        "kind": model.kind,
        "last_id": str(model.head.vocab_size - 1),
        "src_limit": str(longest_source(saved.config)),
        "tgt_limit": str(_rows(saved.config)),
    }
    inputs = {"src": ("INT64", "B S"), "src_lengths": ("INT64", "B"), "limits": ("INT64", "B")}
    inputs |= dict.fromkeys(form.inputs, ("FLOAT", ""))
    return graph.serialized(
        inputs,
        {"tokens": ("INT64", "B T"), "log_probs": ("FLOAT", "B T"), "lengths": ("INT64", "B")},
        about,
    )


def longest_source(config: SavedConfig) -> int:
    """The longest one whose canvas still has positions, END included."""
    rows, canvas = _rows(config), config.seq2seq.decoder.longest_canvas
    return max((length for length in range(1, rows + 1) if canvas(length, 1) <= rows), default=1)


def _rows(config: SavedConfig) -> int:
    return config.model.limits.src or ROWS


def _placed(graph: Graph, embedder: Embedder, x: Value, width: Value) -> Value:
    """x and the vectors of the first `width` positions."""
    positions = embedder.positions
    if isinstance(positions, Learned):
        table = graph.weight(positions.weight)
    else:
        d_model = embedder.tokens.weight.shape[1]
        table = graph.once("positions", lambda: graph.constant(as_array(sinusoidal(torch.arange(ROWS), d_model))))
    return graph.op("Add", x, graph.op("Slice", table, graph.ints(0), graph.op("Reshape", width, graph.ints(1))))


def _best(graph: Graph, decoded: Value, model: ParallelModel, form: OnnxCanvas) -> tuple[Value, Value]:
    """The most probable token of each position, of equals the first one, and its log p.

    ONNX Runtime looks for the place of a maximum one number after the other, but for maxima many at a time: so the best
    of some √V blocks of the vocabulary, which block has it, and where in that block it stands.
    """
    weight = output_matrix(model.head)
    blocks = max(1, round(math.sqrt(len(weight))))
    block = math.ceil(len(weight) / blocks)
    filled = weight.new_zeros(blocks * block, weight.shape[1])
    filled[: len(weight)] = weight
    bias = output_bias(len(weight), len(filled))
    if not form.says_end:
        bias[SPECIAL.eos] = NEVER
    logits = graph.product(decoded, filled, form.shift(graph, model, bias), "head")
    # [N, V], and [N, blocks, block]: each node has its cost, and few axes make it smaller.
    grouped = graph.op("Reshape", logits, graph.ints(-1, blocks, block))
    bests = graph.op("ReduceMax", grouped, graph.ints(2), keepdims=0)
    which = graph.op("ArgMax", bests, axis=1, keepdims=1)
    inside = graph.op("ArgMax", graph.op("GatherND", grouped, which, batch_dims=1), axis=1, keepdims=1)
    tokens = graph.op("Add", graph.op("Mul", which, graph.ints(block)), inside)
    probabilities = graph.op("Softmax", graph.op("Reshape", logits, graph.ints(-1, len(filled))), axis=1)
    best = graph.op("Log", graph.op("GatherElements", probabilities, tokens, axis=1))
    shape = graph.op("Shape", decoded, start=0, end=2)
    return graph.op("Reshape", tokens, shape), graph.op("Reshape", best, shape)


exporters.register(WHAT, export_onnx)

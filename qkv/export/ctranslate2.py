"""Export to CTranslate2."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from qkv.config import Config, dump_config
from qkv.core.errors import UsageError
from qkv.core.files import new_folder
from qkv.export.base import exporters
from qkv.export.int8 import choose_backend
from qkv.export.whitelist import SHARING, AllowedConfigs, norm_epsilon, output_bias, unknown_parts
from qkv.functional.positions import sinusoidal
from qkv.layers.attention import MultiHeadAttention
from qkv.layers.feed_forward import FeedForwardConfig, GeluConfig, ReluConfig, SwigluConfig, SwigluFeedForward
from qkv.layers.positions import Positions
from qkv.layers.positions.learned import Learned, LearnedConfig
from qkv.layers.positions.rope import Rope, RopeConfig
from qkv.layers.positions.sinusoidal import SinusoidalConfig
from qkv.layers.residual import PostNormConfig, PreNormConfig
from qkv.models.heads.linear import output_matrix
from qkv.models.saved.folder import CONFIG, TOKENIZER, SavedConfig, SavedModel
from qkv.models.transformer.config import TransformerConfig, require_transformer_config
from qkv.models.transformer.model import Embedder, require_transformer
from qkv.models.transformer.pruning import with_even_heads
from qkv.models.transformer.stacks.base import Stack
from qkv.text import SPECIAL, Tokenizer
from qkv.text.special import NAMES

if TYPE_CHECKING:
    from ctranslate2.specs import LayerSpec, TransformerSpec

WHAT = "ctranslate2"
"""What the manifest of an export says."""
QUANTIZATIONS = ("int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16", "float16", "bfloat16", "float32")
ROWS = 4096
"""The longest sequence with sinusoidal positions, which CTranslate2 stores as a table."""
ALLOWED: AllowedConfigs = {
    "residual": (PostNormConfig, PreNormConfig),
    "positions": (SinusoidalConfig, LearnedConfig, RopeConfig),
    "feed_forward": (ReluConfig, GeluConfig, SwigluConfig),
}


def ctranslate2_obstacles(config: SavedConfig) -> list[str]:
    """The reasons why a model cannot be exported to CTranslate2; empty: it can."""
    return unknown_parts(config.model, ALLOWED, "CTranslate2", SHARING)


def _instead(config: SavedConfig) -> str:
    if not isinstance(config.model, TransformerConfig) or type(config.model.positions) in ALLOWED["positions"]:
        return "use it with --engine torch"
    return "use it with --engine torch, or train one with model.positions.kind=sinusoidal"


def export_ctranslate2(saved: SavedModel, folder: Path, quantization: str | None = None) -> None:
    """Write the model for CTranslate2, its tokenizers and its configuration into a folder with a manifest.

    `quantization` is how the weights are stored; None: as they are, in float32. The model itself is not changed.
    """
    reasons = ctranslate2_obstacles(saved.config)
    advice = f"; {_instead(saved.config)}" if reasons else ""
    if quantization is not None and quantization not in QUANTIZATIONS:
        reasons.append(f"quantization {quantization} is unknown, choose one of {', '.join(QUANTIZATIONS)}")
    if reasons:
        raise UsageError(f"the model cannot be exported to CTranslate2: {'; '.join(reasons)}{advice}")
    even = with_even_heads(saved)
    spec = _filled_spec(even, _alignment_heads(saved))
    spec.validate()
    spec.optimize(quantization=quantization)
    with new_folder(folder, {"what": WHAT, "quantization": quantization}) as temporary:
        spec.save(str(temporary))
        (temporary / CONFIG).write_text(dump_config(even.config), encoding="utf-8")
        (temporary / TOKENIZER).mkdir()
        saved.config.text.save(saved.tokenizers, temporary / TOKENIZER)


def vocabulary(tokenizer: Tokenizer) -> list[str]:
    """A unique name for each id: its piece, with the id appended where two pieces look the same."""
    names = list(NAMES)
    taken = set(names)
    for i, piece in enumerate(tokenizer.tokens(range(len(NAMES), len(tokenizer))), start=len(NAMES)):
        name = piece
        while name in taken:
            name = f"{name}#{i}"
        taken.add(name)
        names.append(name)
    return names


def _alignment_heads(saved: SavedModel) -> int:
    """How many heads of the last layer an alignment is the mean over, the first ones; 0: all.

    Heads that were added to make the number even come behind the others.
    """
    *_, last = require_transformer(saved.model, "CTranslate2").decoder.in_order()
    heads = last.cross_attention.num_heads
    return 0 if heads == require_transformer_config(saved.config.model, "CTranslate2").num_heads else heads


def _filled_spec(saved: SavedModel, alignment_heads: int) -> "TransformerSpec":
    choose_backend()
    try:
        from ctranslate2.specs import TransformerSpec
        from ctranslate2.specs.transformer_spec import TransformerDecoderSpec, TransformerEncoderSpec
    except ImportError as error:
        raise UsageError("exporting to CTranslate2 needs it; install it with: pip install 'qkv[fast]'") from error
    model = require_transformer(saved.model, "CTranslate2")
    config = require_transformer_config(saved.config.model, "CTranslate2")
    settings = {
        "pre_norm": isinstance(config.residual, PreNormConfig),
        "activation": _activation(config.feed_forward),
        "ffn_glu": isinstance(config.feed_forward, SwigluConfig),
        **_rotation(model.src_embedder.positions),
    }
    encoder = TransformerEncoderSpec(config.encoder_layers, config.num_heads, **settings)
    # Alignments are the mean over heads of the last layer (-1).
    decoder = TransformerDecoderSpec(
        config.decoder_layers, config.num_heads, alignment_layer=-1, alignment_heads=alignment_heads, **settings
    )
    spec = TransformerSpec(encoder, decoder)
    _fill_embedding(encoder, encoder.embeddings[0], model.src_embedder)
    _fill_embedding(decoder, decoder.embeddings, model.tgt_embedder)
    _fill_stack(encoder, model.encoder)
    _fill_stack(decoder, model.decoder)
    _fill_head(decoder.projection, output_matrix(model.head))
    spec.register_source_vocabulary(vocabulary(saved.tokenizers.src))
    spec.register_target_vocabulary(vocabulary(saved.tokenizers.tgt))
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = (
        NAMES[i] for i in (SPECIAL.unk, SPECIAL.bos, SPECIAL.eos)
    )
    spec.config.decoder_start_token = NAMES[SPECIAL.bos]
    spec.config.layer_norm_epsilon = norm_epsilon(model)
    return spec


def _rotation(positions: Positions) -> dict[str, Any]:
    """The settings of rotary positions, whose pairs are the two halves of a head; empty: others."""
    if not isinstance(positions, Rope):
        return {}
    return {"rotary_dim": positions.head_width, "rotary_interleave": False, "rotary_base": positions.base}


def _activation(feed_forward: FeedForwardConfig) -> int:
    from ctranslate2.specs.common_spec import Activation

    names: dict[type[Config], Any] = {
        ReluConfig: Activation.RELU,
        GeluConfig: Activation.GELU,
        SwigluConfig: Activation.SWISH,
    }
    return int(names[type(feed_forward)])


def _copy(*tensors: Tensor) -> np.ndarray:
    """The tensors below each other. Always a copy: quantization scales what it is given in place."""
    joined: np.ndarray = torch.cat([tensor.detach().float().cpu() for tensor in tensors]).numpy()
    return joined


def _fill_linear(spec: "LayerSpec", *linears: nn.Linear) -> None:
    spec.weight = _copy(*(linear.weight for linear in linears))
    if linears[0].bias is not None:
        spec.bias = _copy(*(linear.bias for linear in linears))


def _fill_norm(spec: "LayerSpec", norm: nn.LayerNorm) -> None:
    spec.gamma, spec.beta = _copy(norm.weight), _copy(norm.bias)


def _fill_embedding(stack: "LayerSpec", spec: "LayerSpec", embedder: Embedder) -> None:
    spec.weight = _copy(embedder.tokens.weight)
    stack.scale_embeddings = True
    if not isinstance(embedder.positions, Rope):
        stack.position_encodings.encodings = _copy(_position_table(embedder.positions, spec.weight.shape[1]))


def _position_table(positions: Positions, d_model: int) -> Tensor:
    """One row more than the longest sequence: scoring a target reads the position after its last token, too."""
    if isinstance(positions, Learned):
        return nn.functional.pad(positions.weight, (0, 0, 0, 1))
    return sinusoidal(torch.arange(ROWS + 1), d_model)


def _fill_stack(spec: "LayerSpec", stack: Stack[Any]) -> None:
    for layer_spec, layer in zip(spec.layer, stack.in_order(), strict=True):
        _fill_layer(layer_spec, layer)
    if isinstance(stack.final, nn.LayerNorm):
        _fill_norm(spec.layer_norm, stack.final)


def _fill_layer(spec: "LayerSpec", layer: Any) -> None:
    attention: MultiHeadAttention = layer.attention
    _fill_linear(spec.self_attention.linear[0], attention.query, attention.key, attention.value)
    _fill_linear(spec.self_attention.linear[1], attention.output)
    _fill_norm(spec.self_attention.layer_norm, layer.attention_residual.norm)
    if hasattr(layer, "cross_attention"):
        cross: MultiHeadAttention = layer.cross_attention
        _fill_linear(spec.attention.linear[0], cross.query)
        _fill_linear(spec.attention.linear[1], cross.key, cross.value)
        _fill_linear(spec.attention.linear[2], cross.output)
        _fill_norm(spec.attention.layer_norm, layer.cross_residual.norm)
    if isinstance(layer.feed_forward, SwigluFeedForward):
        _fill_linear(spec.ffn.linear_0, layer.feed_forward.gate)
        _fill_linear(spec.ffn.linear_0_noact, layer.feed_forward.inner)
    else:
        _fill_linear(spec.ffn.linear_0, layer.feed_forward.inner)
    _fill_linear(spec.ffn.linear_1, layer.feed_forward.outer)
    _fill_norm(spec.ffn.layer_norm, layer.feed_forward_residual.norm)


def _fill_head(spec: "LayerSpec", weight: Tensor) -> None:
    spec.weight = _copy(weight)
    spec.bias = _copy(output_bias(len(weight), len(weight)))


exporters.register(WHAT, export_ctranslate2)

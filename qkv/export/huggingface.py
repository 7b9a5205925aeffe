"""Export to Hugging Face transformers: MarianMT (post-norm) or Pegasus (pre-norm).

Both compute positions as all sines, then all cosines. Ours are in pairs, so the channels of the residual stream are
permuted: even ones first. Permuting every vector in the same way does not change the model.
"""

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from qkv.config import dump_config
from qkv.core.errors import UsageError
from qkv.core.files import new_folder
from qkv.export.base import exporters
from qkv.export.gpt2 import export_gpt2
from qkv.export.hf_tokenizer import TARGET, write_tokenizers
from qkv.export.whitelist import NEVER, SHARING, AllowedConfigs, norm_epsilon, output_bias, unknown_parts
from qkv.functional.positions import sinusoidal
from qkv.layers.attention import MultiHeadAttention
from qkv.layers.feed_forward import GeluConfig, ReluConfig
from qkv.layers.positions.sinusoidal import SinusoidalConfig
from qkv.layers.residual import PostNormConfig, PreNormConfig
from qkv.models.heads.linear import output_matrix
from qkv.models.language.causal import CausalLMConfig
from qkv.models.saved.folder import CONFIG, TOKENIZER, SavedConfig, SavedModel
from qkv.models.saved.weights import write_tensors
from qkv.models.transformer.config import require_transformer_config
from qkv.models.transformer.model import require_transformer
from qkv.models.transformer.pruning import with_even_heads
from qkv.models.transformer.stacks.base import Stack
from qkv.text import SPECIAL

HEAD = """---
library_name: transformers
pipeline_tag: translation
tags:
- qkv
---

# A sequence-to-sequence Transformer trained with qkv

The weights are in the form of `{architecture}`. `config.yaml` and `tokenizer/` are the configuration and the
tokenizers that it was trained with.

```python
import torch
from transformers import AutoModelForSeq2SeqLM{import_tokenizer}

model = AutoModelForSeq2SeqLM.from_pretrained(".")
{code}```

`generate` starts from `<s>` (id 2) and ends with `</s>` (id 3); a source ends with `</s>` and has no `<s>`. The padding
is id 0. An output bias of {never:.0f} keeps `<pad>`, `<s>` and `<mask>` out of the output.
"""
WITH_TOKENIZER = """tokenizer = AutoTokenizer.from_pretrained(".")
{target}batch = tokenizer(["a text"], return_tensors="pt", padding=True, return_token_type_ids=False)
print({decoder}.batch_decode(model.generate(**batch), skip_special_tokens=True))
"""
WITHOUT_TOKENIZER = """tokenizers = load_tokenizers(Path("tokenizer"))
ids = torch.tensor([[*tokenizers.src.encode("a text"), tokenizers.src.special.eos]])
print(tokenizers.tgt.decode(model.generate(ids)[0].tolist()))
"""


def model_card(saved: SavedModel, architecture: str, has_tokenizer: bool) -> str:
    if not has_tokenizer:
        needed = "\nfrom pathlib import Path\n\nfrom qkv.text import load_tokenizers"
        return HEAD.format(architecture=architecture, never=NEVER, import_tokenizer=needed, code=WITHOUT_TOKENIZER)
    target, decoder = "", "tokenizer"
    if not saved.tokenizers.shared:
        target = f'tgt_tokenizer = AutoTokenizer.from_pretrained("{TARGET}")\n'
        decoder = "tgt_tokenizer"
    code = WITH_TOKENIZER.format(target=target, decoder=decoder)
    return HEAD.format(architecture=architecture, never=NEVER, import_tokenizer=", AutoTokenizer", code=code)


WHAT = "huggingface"
MAX_POSITIONS = 1024
EPSILON = 1e-5
"""Of every norm there; no configuration can change it."""
ALLOWED: AllowedConfigs = {
    "residual": (PostNormConfig, PreNormConfig),
    "positions": (SinusoidalConfig,),
    "feed_forward": (ReluConfig, GeluConfig),
}
Tensors = dict[str, Tensor]


def huggingface_obstacles(config: SavedConfig) -> list[str]:
    """The reasons why a model cannot be exported to Hugging Face transformers; empty: it can."""
    reasons = unknown_parts(config.model, ALLOWED, "Hugging Face", SHARING)
    if config.model.d_model % 2:
        reasons.append(f"model.d_model {config.model.d_model} is odd")
    return reasons


def export_huggingface(saved: SavedModel, folder: Path) -> None:
    """Write the model for Hugging Face transformers into a folder with a manifest. The model itself is not changed."""
    if isinstance(saved.config.model, CausalLMConfig):
        export_gpt2(saved, folder)
        return
    reasons = huggingface_obstacles(saved.config)
    if not reasons and (epsilon := norm_epsilon(saved.model)) != EPSILON:
        reasons.append(f"its norms have the epsilon {epsilon:g}, theirs {EPSILON:g}")
    if reasons:
        raise UsageError(f"the model cannot be exported to Hugging Face: {'; '.join(reasons)}")
    saved = with_even_heads(saved)
    config = hf_config(saved)
    with new_folder(folder, {"what": WHAT}) as temporary:
        write_tensors(temporary / "model.safetensors", hf_weights(saved), {"format": "pt"})
        _write_json(temporary / "config.json", config)
        _write_json(temporary / "generation_config.json", _generation_config())
        (temporary / CONFIG).write_text(dump_config(saved.config), encoding="utf-8")
        (temporary / TOKENIZER).mkdir()
        saved.config.text.save(saved.tokenizers, temporary / TOKENIZER)
        ready = write_tokenizers(saved.tokenizers, temporary)
        card = model_card(saved, config["architectures"][0], ready)
        (temporary / "README.md").write_text(card, encoding="utf-8")


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def hf_config(saved: SavedModel) -> dict[str, Any]:
    """config.json with every field, because the defaults are those of other models."""
    config = require_transformer_config(saved.config.model, "Hugging Face")
    pre_norm = isinstance(config.residual, PreNormConfig)
    size = max(len(saved.tokenizers.src), len(saved.tokenizers.tgt))
    one_matrix = _one_matrix(saved)
    sides: dict[str, Any] = {}
    for side, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        sides |= {f"{side}_layers": layers, f"{side}_ffn_dim": config.d_ff, f"{side}_layerdrop": 0.0}
        sides[f"{side}_attention_heads"] = config.num_heads
    only_here: dict[str, Any] = {
        "model_type": "marian",
        "architectures": ["MarianMTModel"],
        "decoder_vocab_size": size,
        "share_encoder_decoder_embeddings": one_matrix,
    }
    if pre_norm:
        # The last two are read by the converter of CTranslate2.
        only_here = {
            "model_type": "pegasus",
            "architectures": ["PegasusForConditionalGeneration"],
            "normalize_before": True,
            "normalize_embedding": False,
        }
    return only_here | sides | _general_config(saved, size, one_matrix)


def _general_config(saved: SavedModel, size: int, one_matrix: bool) -> dict[str, Any]:
    config = require_transformer_config(saved.config.model, "Hugging Face")
    return {
        "vocab_size": size,
        "d_model": config.d_model,
        "activation_function": "relu" if isinstance(config.feed_forward, ReluConfig) else "gelu",
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "activation_dropout": config.feed_forward_dropout,
        "max_position_embeddings": MAX_POSITIONS,
        "scale_embedding": True,
        "tie_word_embeddings": one_matrix,
        "is_encoder_decoder": True,
        "pad_token_id": SPECIAL.pad,
        "bos_token_id": SPECIAL.bos,
        "eos_token_id": SPECIAL.eos,
        "decoder_start_token_id": SPECIAL.bos,
        "forced_eos_token_id": None,
        "dtype": "float32",
    }


def _generation_config() -> dict[str, Any]:
    return {
        "num_beams": 5,
        "early_stopping": True,
        "length_penalty": 1.0,
        "max_length": MAX_POSITIONS,
        "pad_token_id": SPECIAL.pad,
        "bos_token_id": SPECIAL.bos,
        "eos_token_id": SPECIAL.eos,
        "decoder_start_token_id": SPECIAL.bos,
    }


def _one_matrix(saved: SavedModel) -> bool:
    model = require_transformer(saved.model, "Hugging Face")
    return model.src_embedder.tokens.weight is model.tgt_embedder.tokens.weight is output_matrix(model.head)


def hf_weights(saved: SavedModel) -> Tensors:
    """Every tensor under its name there."""
    model = require_transformer(saved.model, "Hugging Face")
    config, matrix = require_transformer_config(saved.config.model, "Hugging Face"), output_matrix(model.head)
    order = torch.cat([torch.arange(0, config.d_model, 2), torch.arange(1, config.d_model, 2)])
    size = max(len(saved.tokenizers.src), len(saved.tokenizers.tgt))
    weights = {"final_logits_bias": output_bias(len(matrix), size)[None]}
    if _one_matrix(saved):
        weights["model.shared.weight"] = _rows(matrix, size, order)
    else:
        weights["model.encoder.embed_tokens.weight"] = _rows(model.src_embedder.tokens.weight, size, order)
        weights["model.decoder.embed_tokens.weight"] = _rows(model.tgt_embedder.tokens.weight, size, order)
        weights["lm_head.weight"] = _rows(matrix, size, order)
    if isinstance(config.residual, PreNormConfig):
        # Pegasus asks for these in any case, though it would compute the waves itself and may not use the matrix.
        weights.setdefault("model.shared.weight", _rows(model.src_embedder.tokens.weight, size, order))
        waves = sinusoidal(torch.arange(MAX_POSITIONS), config.d_model)[:, order]
        weights |= {f"model.{side}.embed_positions.weight": waves for side in ("encoder", "decoder")}
    weights |= _stack("model.encoder", model.encoder, order) | _stack("model.decoder", model.decoder, order)
    # A copy of each: layers that share their weights are stored once for every depth.
    return {name: tensor.detach().float().clone().contiguous() for name, tensor in weights.items()}


def _rows(table: Tensor, size: int, order: Tensor) -> Tensor:
    """An embedding with its channels in `order`, and zeros for the ids that only the other side has."""
    return nn.functional.pad(table[:, order], (0, 0, 0, size - len(table)))


def _stack(name: str, stack: Stack[Any], order: Tensor) -> Tensors:
    weights: Tensors = {}
    for depth, layer in enumerate(stack.in_order()):
        weights |= _layer(f"{name}.layers.{depth}", layer, order)
    if isinstance(stack.final, nn.LayerNorm):
        weights |= _norm(f"{name}.layer_norm", stack.final, order)
    return weights


def _layer(name: str, layer: Any, order: Tensor) -> Tensors:
    weights = _attention(f"{name}.self_attn", layer.attention, order)
    weights |= _norm(f"{name}.self_attn_layer_norm", layer.attention_residual.norm, order)
    if hasattr(layer, "cross_attention"):
        weights |= _attention(f"{name}.encoder_attn", layer.cross_attention, order)
        weights |= _norm(f"{name}.encoder_attn_layer_norm", layer.cross_residual.norm, order)
    weights |= _reading(f"{name}.fc1", layer.feed_forward.inner, order)
    weights |= _writing(f"{name}.fc2", layer.feed_forward.outer, order)
    return weights | _norm(f"{name}.final_layer_norm", layer.feed_forward_residual.norm, order)


def _attention(name: str, attention: MultiHeadAttention, order: Tensor) -> Tensors:
    weights: Tensors = {}
    for theirs, ours in (("q_proj", attention.query), ("k_proj", attention.key), ("v_proj", attention.value)):
        weights |= _reading(f"{name}.{theirs}", ours, order)
    return weights | _writing(f"{name}.out_proj", attention.output, order)


def _reading(name: str, linear: nn.Linear, order: Tensor) -> Tensors:
    """A projection that reads the residual stream."""
    return {f"{name}.weight": linear.weight[:, order], f"{name}.bias": linear.bias}


def _writing(name: str, linear: nn.Linear, order: Tensor) -> Tensors:
    """A projection that writes to the residual stream."""
    return {f"{name}.weight": linear.weight[order], f"{name}.bias": linear.bias[order]}


def _norm(name: str, norm: nn.LayerNorm, order: Tensor) -> Tensors:
    return {f"{name}.weight": norm.weight[order], f"{name}.bias": norm.bias[order]}


def _unquantised(saved: SavedModel, folder: Path, quantization: str | None) -> None:
    if quantization is not None:
        raise UsageError(f"quantization {quantization}: only ctranslate2 and onnx have that; leave it out")
    export_huggingface(saved, folder)


exporters.register(WHAT, _unquantised)

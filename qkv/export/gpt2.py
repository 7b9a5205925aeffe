"""`causal_lm` for Hugging Face transformers, as GPT2LMHeadModel."""

import json
from pathlib import Path
from typing import Any

from torch import Tensor

from qkv.core.errors import UsageError
from qkv.core.files import new_folder
from qkv.export.hf_tokenizer import write_tokenizers
from qkv.export.importing.gpt2 import ACTIVATIONS
from qkv.layers.attention import FullConfig
from qkv.layers.positions.learned import LearnedConfig
from qkv.layers.residual import PreNormConfig
from qkv.models.language.causal import CausalLMConfig
from qkv.models.saved.folder import TOKENIZER, SavedModel
from qkv.models.saved.weights import named_weights, write_tensors
from qkv.text import SPECIAL

NAMES = {ours: theirs for theirs, ours in ACTIVATIONS.items()}


def gpt2_obstacles(config: CausalLMConfig) -> list[str]:
    """Why GPT-2 has no form of the model; empty: it has."""
    parts = {"residual": PreNormConfig(), "attention": FullConfig()}
    found = [name for name, only in parts.items() if getattr(config, name) != only]
    found += ["positions"] if not isinstance(config.positions, LearnedConfig) else []
    found += ["feed_forward"] if config.feed_forward.kind not in NAMES else []
    found += ["absent"] if config.absent else []
    return [f"GPT-2 has no form of this model.{name}" for name in found]


def export_gpt2(saved: SavedModel, folder: Path) -> None:
    """Write the model for transformers; ids stay the same. Texts begin with <s> there too."""
    config = saved.config.model
    assert isinstance(config, CausalLMConfig)
    if reasons := gpt2_obstacles(config):
        raise UsageError(f"the model cannot be exported to Hugging Face: {'; '.join(reasons)}")
    with new_folder(folder, {"what": "huggingface"}) as temporary:
        weights = theirs_of_gpt2(named_weights(saved.model), config.num_layers)
        write_tensors(temporary / "model.safetensors", weights, {"format": "pt"})
        content = json.dumps(hf_gpt2_config(config, len(saved.tokenizers.tgt)), indent=2)
        (temporary / "config.json").write_text(content + "\n", encoding="utf-8")
        (temporary / TOKENIZER).mkdir()
        saved.config.text.save(saved.tokenizers, temporary / TOKENIZER)
        write_tokenizers(saved.tokenizers, temporary)


def hf_gpt2_config(config: CausalLMConfig, vocab_size: int) -> dict[str, Any]:
    """config.json"""
    return {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "vocab_size": vocab_size,
        "n_positions": config.positions.limit,
        "n_embd": config.d_model,
        "n_layer": config.num_layers,
        "n_head": config.num_heads,
        "n_inner": config.d_ff,
        "activation_function": NAMES[config.feed_forward.kind],
        "resid_pdrop": config.dropout,
        "embd_pdrop": config.dropout,
        "attn_pdrop": config.attention_dropout,
        "layer_norm_epsilon": 1e-5,
        "tie_word_embeddings": True,
        "bos_token_id": SPECIAL.bos,
        "eos_token_id": SPECIAL.eos,
        "pad_token_id": SPECIAL.pad,
    }


def theirs_of_gpt2(ours: dict[str, Tensor], layers: int) -> dict[str, Tensor]:
    """The inverse of `importing.gpt2.gpt2_weights`, with the names of GPT2LMHeadModel."""
    import torch

    found = {"wte.weight": ours["embedder.tokens.weight"], "wpe.weight": ours["embedder.positions.weight"]}
    for end in ("weight", "bias"):
        found[f"ln_f.{end}"] = ours[f"stack.final.{end}"]
    for number in range(layers):
        own, theirs = f"stack.layers.{number}.", f"h.{number}."
        for end in ("weight", "bias"):
            found[f"{theirs}ln_1.{end}"] = ours[f"{own}attention_residual.norm.{end}"]
            found[f"{theirs}ln_2.{end}"] = ours[f"{own}feed_forward_residual.norm.{end}"]
            qkv = torch.cat([ours[f"{own}attention.{name}.{end}"] for name in ("query", "key", "value")])
            maps = {"attn.c_attn": qkv, "attn.c_proj": ours[f"{own}attention.output.{end}"]}
            maps["mlp.c_fc"] = ours[f"{own}feed_forward.inner.{end}"]
            maps["mlp.c_proj"] = ours[f"{own}feed_forward.outer.{end}"]
            found |= {
                f"{theirs}{name}.{end}": tensor.t() if tensor.dim() == 2 else tensor for name, tensor in maps.items()
            }
    return {f"transformer.{name}": tensor.contiguous() for name, tensor in found.items()}

"""GPT-2 (Radford et al. 2019) of Hugging Face as `causal_lm`."""

import json
from typing import Any

from torch import Tensor

from qkv.core.errors import UsageError
from qkv.export.importing.base import (
    HuggingFaceFolder,
    Imported,
    filled,
    importers,
    rows_in_our_order,
    without_prefix,
)
from qkv.models.language.causal import CausalLMConfig
from qkv.text import SPECIAL, TextConfig

ACTIVATIONS = {"gelu_new": "gelu_tanh", "gelu": "gelu", "relu": "relu"}
FIXED = {
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "layer_norm_epsilon": 1e-5,
    "tie_word_embeddings": True,
}
"""Settings of config.json that have one value here, their default."""


def gpt2_config(theirs: dict[str, Any]) -> CausalLMConfig:
    """The config of the same model here."""
    activation = theirs.get("activation_function", "gelu_new")
    if activation not in ACTIVATIONS:
        raise UsageError(f"a GPT-2 with the activation {activation} cannot be imported, only {', '.join(ACTIVATIONS)}")
    for name, only in FIXED.items():
        if theirs.get(name, only) != only:
            raise UsageError(
                f"a GPT-2 with {name} {json.dumps(theirs[name])} cannot be imported, only with {json.dumps(only)}"
            )
    return CausalLMConfig(
        d_model=theirs["n_embd"],
        d_ff=theirs.get("n_inner") or 4 * theirs["n_embd"],
        num_heads=theirs["n_head"],
        num_layers=theirs["n_layer"],
        dropout=theirs.get("resid_pdrop", 0.1),
        positions={"kind": "learned", "max_length": theirs["n_positions"]},
        feed_forward=ACTIVATIONS[activation],
        # It has one token for all of these, which ends a text.
        absent=(SPECIAL.pad, SPECIAL.unk, SPECIAL.bos, SPECIAL.mask),
    )


def gpt2_weights(tensors: dict[str, Tensor], table: Tensor, layers: int) -> dict[str, Tensor]:
    """The tensors by our names; `table` [V', D] is the embedding in our order. Their matrices are transposed."""
    found = {"embedder.tokens.weight": table, "embedder.positions.weight": tensors["wpe.weight"]}
    for end in ("weight", "bias"):
        found[f"stack.final.{end}"] = tensors[f"ln_f.{end}"]
    for number in range(layers):
        ours, theirs = f"stack.layers.{number}.", f"h.{number}."
        for end in ("weight", "bias"):
            found[f"{ours}attention_residual.norm.{end}"] = tensors[f"{theirs}ln_1.{end}"]
            found[f"{ours}feed_forward_residual.norm.{end}"] = tensors[f"{theirs}ln_2.{end}"]
            parts = tensors[f"{theirs}attn.c_attn.{end}"].chunk(3, dim=-1)
            maps = dict(zip(("attention.query", "attention.key", "attention.value"), parts, strict=True))
            maps["attention.output"] = tensors[f"{theirs}attn.c_proj.{end}"]
            maps["feed_forward.inner"] = tensors[f"{theirs}mlp.c_fc.{end}"]
            maps["feed_forward.outer"] = tensors[f"{theirs}mlp.c_proj.{end}"]
            for name, tensor in maps.items():
                found[f"{ours}{name}.{end}"] = tensor.t() if tensor.dim() == 2 else tensor
    return found


def import_gpt2(folder: HuggingFaceFolder) -> Imported:
    """A GPT2LMHeadModel or GPT2Model."""
    config = gpt2_config(folder.config)
    end = folder.config.get("eos_token_id", folder.config["vocab_size"] - 1)
    tokenizers = folder.tokenizers({"bos": end, "eos": end})
    tensors = without_prefix(folder.tensors, "transformer.")
    weights = gpt2_weights(tensors, rows_in_our_order(tensors["wte.weight"], tokenizers), config.num_layers)
    model = filled(config.build(tokenizers), weights, folder.path)
    return Imported(model, config, tokenizers, TextConfig(shared={"kind": "huggingface"}))


importers.register("gpt2", import_gpt2)

"""The Vision Transformer (Dosovitskiy et al. 2021) of Hugging Face, with its classifier, as `vision`."""

import json
from typing import Any

import torch
from torch import Tensor

from qkv.core.errors import UsageError
from qkv.export.importing.base import HuggingFaceFolder, Imported, filled, importers, without_prefix
from qkv.models.vision.config import VisionConfig
from qkv.text import TextConfig

ACTIVATIONS = {"gelu": "gelu", "relu": "relu", "gelu_new": "gelu_tanh"}
PIXELS = {"image_mean": 0.5, "image_std": 0.5}
"""With these, pixels become numbers from -1 to 1, as they are read here."""


def vit_config(theirs: dict[str, Any], classes: int) -> VisionConfig:
    """The config of the same model here."""
    activation = theirs.get("hidden_act", "gelu")
    if activation not in ACTIVATIONS:
        raise UsageError(f"a ViT with the activation {activation} cannot be imported, only {', '.join(ACTIVATIONS)}")
    if not isinstance(theirs["patch_size"], int):
        raise UsageError(f"a ViT with patches of {theirs['patch_size']} cannot be imported, only with square ones")
    size = theirs["image_size"]
    return VisionConfig(
        image_size=(size, size) if isinstance(size, int) else size,
        channels=theirs["num_channels"],
        patch=theirs["patch_size"],
        classes=classes,
        d_model=theirs["hidden_size"],
        d_ff=theirs["intermediate_size"],
        num_layers=theirs["num_hidden_layers"],
        num_heads=theirs["num_attention_heads"],
        dropout=theirs.get("hidden_dropout_prob", 0.0),
        feed_forward=ACTIVATIONS[activation],
        norm_eps=theirs.get("layer_norm_eps", 1e-12),
    )


def vit_weights(tensors: dict[str, Tensor], layers: int) -> dict[str, Tensor]:
    """All tensors by our names; queries, keys and values without biases get zeros."""
    projection = "embeddings.patch_embeddings.projection."
    found = {
        "embedding.project.weight": tensors[f"{projection}weight"].flatten(1),
        "embedding.project.bias": tensors[f"{projection}bias"],
        "embedding.class_token": tensors["embeddings.cls_token"][0, 0],
        "embedding.positions": tensors["embeddings.position_embeddings"][0],
    }
    none = torch.zeros(len(found["embedding.class_token"]))
    for end in ("weight", "bias"):
        found[f"head.{end}"] = tensors[f"classifier.{end}"]
        found[f"encoder.stack.final.{end}"] = tensors[f"layernorm.{end}"]
        for number in range(layers):
            ours, theirs = f"encoder.stack.layers.{number}.", f"encoder.layer.{number}."
            for name in ("query", "key", "value"):
                found[f"{ours}attention.{name}.{end}"] = tensors.get(f"{theirs}attention.attention.{name}.{end}", none)
            names = {
                "attention.output": "attention.output.dense",
                "attention_residual.norm": "layernorm_before",
                "feed_forward.inner": "intermediate.dense",
                "feed_forward.outer": "output.dense",
                "feed_forward_residual.norm": "layernorm_after",
            }
            found |= {f"{ours}{own}.{end}": tensors[f"{theirs}{other}.{end}"] for own, other in names.items()}
    return {f"classifier.{name}": tensor for name, tensor in found.items()}


def import_vit(folder: HuggingFaceFolder) -> Imported:
    """A ViTForImageClassification with the names of its classes."""
    tensors = without_prefix(folder.tensors, "vit.")
    if "classifier.weight" not in tensors:
        raise UsageError(f"{folder.path}: a ViT without a classifier names no classes; import one that has it")
    _require_known_pixels(folder)
    classes = len(tensors["classifier.weight"])
    config, text = vit_config(folder.config, classes), TextConfig()
    tokenizers = text.train(lambda: [], lambda: [])
    model = filled(config.build(tokenizers), vit_weights(tensors, config.num_layers), folder.path)
    names = folder.config.get("id2label", {})
    labels = [str(names.get(str(number), number)) for number in range(classes)]
    return Imported(model, config, tokenizers, text, {"labels": labels})


def _require_known_pixels(folder: HuggingFaceFolder) -> None:
    path = folder.path / "preprocessor_config.json"
    if not path.is_file():
        return
    settings = json.loads(path.read_text(encoding="utf-8"))
    for name, value in PIXELS.items():
        if any(given != value for given in settings.get(name, [value])):
            raise UsageError(f"{path}: {name} {settings[name]} cannot be imported, only {value}, which is -1 to 1")


importers.register("vit", import_vit)

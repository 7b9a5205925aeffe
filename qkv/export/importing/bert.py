"""BERT (Devlin et al. 2019) of Hugging Face, with or without its head, as `masked_lm`."""

from typing import Any

from torch import Tensor

from qkv.core.errors import UsageError
from qkv.export.importing.base import HuggingFaceFolder, Imported, filled, importers, rows_in_our_order, without_prefix
from qkv.models.language.masked import MaskedLMConfig
from qkv.models.saved.weights import named_weights
from qkv.text import TextConfig

SPECIAL_TOKENS = {"pad": "[PAD]", "unk": "[UNK]", "bos": "[CLS]", "eos": "[SEP]", "mask": "[MASK]"}
ACTIVATIONS = {"gelu": "gelu", "relu": "relu", "gelu_new": "gelu_tanh"}
HEAD = "cls.predictions."


def bert_config(theirs: dict[str, Any]) -> MaskedLMConfig:
    """The config of the same model here."""
    activation = theirs.get("hidden_act", "gelu")
    if activation not in ACTIVATIONS:
        raise UsageError(f"a BERT with the activation {activation} cannot be imported, only {', '.join(ACTIVATIONS)}")
    if theirs.get("position_embedding_type", "absolute") != "absolute":
        raise UsageError("a BERT with relative positions cannot be imported")
    return MaskedLMConfig(
        d_model=theirs["hidden_size"],
        d_ff=theirs["intermediate_size"],
        num_heads=theirs["num_attention_heads"],
        num_layers=theirs["num_hidden_layers"],
        dropout=theirs.get("hidden_dropout_prob", 0.1),
        attention_dropout=theirs.get("attention_probs_dropout_prob", 0.1),
        positions={"kind": "learned", "max_length": theirs["max_position_embeddings"]},
        feed_forward=ACTIVATIONS[activation],
        num_segments=theirs.get("type_vocab_size", 2),
        norm_eps=theirs.get("layer_norm_eps", 1e-12),
    )


def bert_weights(tensors: dict[str, Tensor], table: Tensor, layers: int) -> dict[str, Tensor]:
    """The encoder's tensors by our names; `table` [V', D] is the embedding in our order."""
    found = {
        "encoder.tokens.weight": table,
        "encoder.positions.weight": tensors["embeddings.position_embeddings.weight"],
        "encoder.segments": tensors["embeddings.token_type_embeddings.weight"],
    }
    for end in ("weight", "bias"):
        found[f"encoder.norm.{end}"] = tensors[f"embeddings.LayerNorm.{end}"]
        for number in range(layers):
            ours, theirs = f"encoder.stack.layers.{number}.", f"encoder.layer.{number}."
            names = {f"attention.{name}": f"attention.self.{name}" for name in ("query", "key", "value")} | {
                "attention.output": "attention.output.dense",
                "attention_residual.norm": "attention.output.LayerNorm",
                "feed_forward.inner": "intermediate.dense",
                "feed_forward.outer": "output.dense",
                "feed_forward_residual.norm": "output.LayerNorm",
            }
            found |= {f"{ours}{own}.{end}": tensors[f"{theirs}{other}.{end}"] for own, other in names.items()}
    return found


def import_bert(folder: HuggingFaceFolder) -> Imported:
    """A BertModel, or a BertForMaskedLM with its head; without one, the head has fresh weights."""
    config = bert_config(folder.config)
    library = folder.library()
    roles = {name: library.token_to_id(token) for name, token in SPECIAL_TOKENS.items()}
    tokenizers = folder.tokenizers(roles)
    tensors = without_prefix(folder.tensors, "bert.")
    model = config.build(tokenizers)
    table = rows_in_our_order(tensors["embeddings.word_embeddings.weight"], tokenizers)
    weights = named_weights(model) | bert_weights(tensors, table, config.num_layers)
    if f"{HEAD}bias" in tensors:
        weights["head.bias"] = rows_in_our_order(tensors[f"{HEAD}bias"], tokenizers)
        for end in ("weight", "bias"):
            weights[f"transform.{end}"] = tensors[f"{HEAD}transform.dense.{end}"]
            weights[f"norm.{end}"] = tensors[f"{HEAD}transform.LayerNorm.{end}"]
    filled(model, weights, folder.path)
    return Imported(model, config, tokenizers, TextConfig(shared={"kind": "huggingface"}))


importers.register("bert", import_bert)

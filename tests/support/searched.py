"""Every search that goes token by token, and a small model of every kind that it can go through."""

from typing import Any

from qkv.models.config import ModelConfig
from qkv.models.kinds import models
from qkv.search.base import searches
from qkv.search.kinds import AnySearch  # noqa: F401  # the kinds are known once this is imported
from tests.support.small import small_text

TEXT, TOKENIZERS = small_text()
STEPWISE = [kind for kind in searches.names() if kind not in ("refine", "speculative")]
"""Those that ask for one token after another; tests/kinds/test_decoders.py has the other one."""
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((kind, {}) for kind in STEPWISE if kind != "mbr"),
    ("mbr", {"samples": 4}),
    ("beam", {"stop": "exact", "length_penalty": "gnmt"}),
    ("beam", {"size": 4, "groups": 2}),
    ("beam", {"length_penalty": "none", "no_repeat_ngram": 2}),
    ("sample", {"samples": 3, "top_k": 4, "top_p": 0.9, "temperature": 0.7}),
]
SMALL: dict[str, dict[str, Any]] = {
    "transformer": {"d_ff": 16, "num_heads": 2, "encoder_layers": 2, "decoder_layers": 2},
    "text_to_text": {"d_ff": 16, "num_heads": 2, "encoder_layers": 2, "decoder_layers": 2},
    "recurrent": {"encoder_layers": 2, "decoder_layers": 2},
    "recurrent gru": {"cell": "gru", "decoder_layers": 2, "encoder": {"kind": "unidirectional", "reverse": True}},
    "recurrent cosine": {"cell": "gru", "attention": {"kind": "content", "score": "cosine"}},
    "recurrent dot": {"attend": "after", "attention": {"kind": "content", "score": "dot"}},
    "recurrent projected": {"attention": {"kind": "content", "score": "scaled_dot", "project": True}},
    "recurrent luong": {"attend": "after", "attention": {"kind": "content", "score": "general"}, "decoder_layers": 2},
    "recurrent located": {"attend": "after", "attention": {"kind": "location_aware", "width": 3}},
    "recurrent covered": {"attend": "after", "input_feeding": True, "attention": "coverage"},
    "recurrent fed": {"cell": "gru", "attend": "after", "input_feeding": True, "attention": "content"},
    "recurrent fixed": {"attention": "none", "encoder": "unidirectional", "first_state": "last", "decoder_layers": 2},
    "recurrent lstmn": {"encoder": "lstmn", "encoder_layers": 2, "first_state": "last"},
    "convolutional": {"width": 12, "encoder_layers": 2, "decoder_layers": 2},
    "bytenet": {"dilations": [1, 2], "decoder_repeats": 2},
    "memory_network": {"hops": 2, "separator": "aa"},
    "memory_network linear": {"separator": "aa", "linear": True, "max_sentences": 2},
    "neural_gpu": {"rows": 2},
    "neural_gpu flat": {"rows": 1, "layers": 1},
}
"""By kind; a second word names other parts of it."""


def small(kind: str) -> ModelConfig:
    return models[kind.split()[0]].model_validate({"d_model": 8, "dropout": 0.0, **SMALL[kind]})

"""The tensors that bertviz's `head_view` and `model_view` take, as one file."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from qkv.core.errors import UsageError
from qkv.core.outputs import write_output
from qkv.visual.see.attentions import SIDES
from qkv.visual.see.sentence import SeenSentence


def bertviz_arrays(seen: SeenSentence) -> dict[str, npt.NDArray[Any]]:
    """`encoder_attention` [L, 1, H, S, S], `decoder_attention`, `cross_attention`; along L, bertviz's tuples of layers.

    `encoder_tokens` and `decoder_tokens` are the strings of both sides: the decoder's are those that it read. A side
    without attention is left out.
    """
    found: dict[str, npt.NDArray[Any]] = {}
    for side in SIDES:
        layers = [each.weights for each in seen.attentions if each.side == side]
        if layers:
            rows = len(seen.src_tokens) if side == "encoder" else len(seen.read)
            keys = len(seen.read) if side == "decoder" else len(seen.src_tokens)
            found[f"{side}_attention"] = torch.stack(layers)[:, None, :, :rows, :keys].numpy()
    found["encoder_tokens"] = np.array(seen.src_tokens)
    found["decoder_tokens"] = np.array(seen.read)
    return found


def write_bertviz(path: Path, seen: SeenSentence) -> None:
    """As .npz (numpy, no pickle inside) or .json."""
    arrays = bertviz_arrays(seen)
    if path.suffix == ".json":
        write_output(path, json.dumps({name: array.tolist() for name, array in arrays.items()}) + "\n")
    elif path.suffix == ".npz":
        file = io.BytesIO()
        np.savez_compressed(file, allow_pickle=False, **arrays)
        write_output(path, file.getvalue())
    else:
        raise UsageError(f"{path}: must end with .npz or .json, the formats for bertviz")

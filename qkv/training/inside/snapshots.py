"""A few dev pairs inside the model at each validation: their cross-attention, and the length of the states."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from pydantic import with_config
from torch import Tensor, nn
from typing_extensions import TypedDict

from qkv.core.arrays import PackedArray, packed_coarsely, unpacked
from qkv.core.errors import CorruptFolder
from qkv.core.reading import STRICT, read_record
from qkv.data.stream import BatchStream
from qkv.layers.attention.recording import AttentionRecord, capture_attention
from qkv.models.base import Model
from qkv.models.transformer.model import Transformer
from qkv.objectives.base import Objective
from qkv.training.outputs.base import spread

LONGEST = 40
"""Tokens of either side of a pair that is kept, END included: a page shows many of them in a row."""
SHORTEST = 5
"""The same at least, where the data has such pairs: shorter ones have little to look at."""
DIGITS = 5


@with_config(STRICT)
class SeenPair(TypedDict):
    """A pair, and the weights of cross-attention [H, T, S] of each decoder layer; row t writes tgt[t]."""

    src: list[str]
    tgt: list[str]
    layers: list[PackedArray]


@with_config(STRICT)
class Snapshot(TypedDict):
    """One validation."""

    pairs: list[SeenPair]
    states: dict[str, list[float]]
    """The mean of ‖x‖ over the tokens of all pairs after each layer of the encoder and of the decoder."""


class Snapshots:
    """Takes them: of `count` pairs of the dev data, evenly spread over those that are short enough."""

    def __init__(self, stream: BatchStream, objective: Objective, count: int) -> None:
        self.stream, self.objective = stream, objective
        lengths = zip(stream.store.src_len.tolist(), stream.store.tgt_len.tolist(), strict=True)
        short = {place: min(pair) for place, pair in enumerate(lengths) if max(pair) <= LONGEST}
        fit = [place for place, least in short.items() if least >= SHORTEST] or list(short)
        self.chosen = [fit[place] for place in spread(len(fit), count)]

    @torch.no_grad()
    def __call__(self, model: Model) -> Snapshot:
        """Of a model in evaluation mode."""
        states: dict[str, list[list[Tensor]]] = {}
        pairs = [self._pair(model, place, states) for place in self.chosen]
        norms = {side: [_rounded(torch.cat(depth).mean()) for depth in depths] for side, depths in states.items()}
        return {"pairs": pairs, "states": norms}

    def _pair(self, model: Model, place: int, states: dict[str, list[list[Tensor]]]) -> SeenPair:
        batch = self.stream.batch_of([place])
        with capture_attention(model) as record, _state_norms(model) as norms:
            self.objective.validation_loss(model, batch.to(model.device))
        for side, depths in norms.items():
            known = states.setdefault(side, [])
            known += [[] for _ in depths[len(known) :]]
            for depth, found in enumerate(depths):
                known[depth].append(found)
        ids = batch.src[0].tolist()
        tokenizers, text = self.stream.tokenizers, self.stream.store.read([place])[0][0]
        names = tokenizers.output_of(text, ids).tokens
        src, tgt = tokenizers.source_tokens(text, ids), [names([i])[0] for i in batch.tgt_out[0].tolist()]
        layers = [each[0].float().cpu() for each in cross_weights(model, record) if each.shape[-1] == len(src)]
        # A model that fills a canvas may have another number of positions than the target has tokens.
        rows = layers[0].shape[1] if layers else len(tgt)
        shown = tgt if rows == len(tgt) else [str(row + 1) for row in range(rows)]
        return {"src": src, "tgt": shown, "layers": [packed_coarsely(each) for each in layers if each.shape[1] == rows]}


def cross_weights(model: Model, record: AttentionRecord) -> list[Tensor]:
    """The weights [B, H, T, S] of cross-attention at each depth of the decoder, in the first of the recorded passes."""
    if not isinstance(model, Transformer):
        return [record[name] for name in record]
    layers = [passes for name, passes in record.passes.items() if name.endswith("cross_attention")]
    rounds = range(max(map(len, layers), default=0))
    depths = [passes[place] for place in rounds for passes in layers if place < len(passes)]
    return [model.decoder.wiring.fold(weights) for weights in depths[: model.decoder.num_layers]]


@contextmanager
def _state_norms(model: Model) -> Iterator[dict[str, list[Tensor]]]:
    """‖x‖ of each token at each depth of a Transformer, in the first pass through it; of other models, nothing."""
    found: dict[str, list[Tensor]] = {}
    with ExitStack() as hooks:
        if isinstance(model, Transformer):
            for side, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
                for layer in stack.layers:
                    hooks.callback(_watch(layer, found.setdefault(side, []), stack.num_layers))
        yield found


def _watch(layer: nn.Module, norms: list[Tensor], depths: int) -> Callable[[], None]:
    """Add what leaves the layer, until there are as many as the stack is deep; gives what ends it."""

    def joined(module: nn.Module, args: tuple[Any, ...], result: Tensor) -> None:
        if len(norms) < depths:
            norms.append(torch.linalg.vector_norm(result[0].float(), dim=-1))

    residual = layer.feed_forward_residual
    assert isinstance(residual, nn.Module)
    return residual.register_forward_hook(joined).remove


def _rounded(value: Tensor) -> float:
    return float(f"{float(value.nan_to_num()):.{DIGITS}g}")


def snapshot_file(folder: Path, update: int) -> Path:
    return folder / f"update-{update:08d}.json"


def snapshot_text(snapshot: Snapshot) -> str:
    """What is written; the same snapshot gives the same bytes."""
    return json.dumps(snapshot, ensure_ascii=False, separators=(",", ":"), allow_nan=False) + "\n"


def read_snapshots(folder: Path) -> dict[int, Snapshot]:
    """All of a run by their updates, in order; raises CorruptFolder for a file that is none."""
    found = {}
    for path in sorted(folder.glob("update-*.json")):
        snapshot = read_record(path, Snapshot, "attention of a few dev pairs")
        for pair in snapshot["pairs"]:
            for layer in pair["layers"]:
                _require_fit(path, pair, layer)
        if (update := path.stem.removeprefix("update-")).isdecimal():
            found[int(update)] = snapshot
    return found


def _require_fit(path: Path, pair: SeenPair, layer: PackedArray) -> None:
    try:
        _, rows, columns = unpacked(layer).shape
    except ValueError as error:
        raise CorruptFolder(f"{path}: holds {error}; remove the file") from error
    if (rows, columns) != (len(pair["tgt"]), len(pair["src"])):
        raise CorruptFolder(f"{path}: holds weights of other sizes than its pairs; remove the file")

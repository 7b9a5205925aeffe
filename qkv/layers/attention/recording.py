"""Recording of attention weights: `with capture_attention(model) as record: ...`.

Every kind of attention reports here, in training, in a parallel pass and in cached decoding. Nothing is computed
unless a recorder is active. A search that needs only the mean over the heads of the last layer asks the model's
inference for it instead, which keeps the other layers fast.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from html import escape
from itertools import count
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from qkv.core.errors import UsageError
from qkv.core.thumbnails import thumbnail_address

PICTURE = "width:96px;height:96px;image-rendering:pixelated;border:1px solid #8888"


class AttentionId(NamedTuple):
    """Identifies an attention of a model; copies of the model for inference share it."""

    model: int
    name: str
    """Within the model, such as `decoder.layers.0.cross_attention`."""


@runtime_checkable
class Identified(Protocol):
    """An attention of a model."""

    attention_id: AttentionId


NOWHERE = AttentionId(0, "")
_models = count(1)


def name_attentions(model: nn.Module) -> None:
    """Give the attentions of a new model their ids."""
    number = next(_models)
    for name, module in model.named_modules():
        if hasattr(module, "attention_id"):
            module.attention_id = AttentionId(number, name)


class AttentionRecord:
    """Weights by the name of the attention, such as `decoder.layers.0.cross_attention`.

    Each pass through an attention adds one tensor [B, H, Q, K] to `passes[name]`; a layer shared between depths
    adds several.

    Examples:
        >>> from qkv import Translator, capture_attention
        >>> translator = Translator("runs/reverse", engine="torch", search="greedy")
        >>> with capture_attention(translator.models.loaded[0].model) as record:
        ...     found = translator.translate("abc")
        >>> sorted(record)[0]
        'decoder.layers.0.attention'
        >>> record["encoder.layers.0.attention"].shape
        torch.Size([1, 4, 4, 4])
    """

    def __init__(self, models: set[int]) -> None:
        self.passes: dict[str, list[Tensor]] = {}
        self._models = models

    def __getitem__(self, name: str) -> Tensor:
        """All passes of one attention, one after the other along the queries: [B, H, Q, K].

        In cached decoding the number of keys grows; keys after a step have weight 0. The passes must
        be of the same sentences with one hypothesis each; others are in `passes`.
        """
        passes = self.passes[name]
        if len({len(weights) for weights in passes}) > 1:
            raise UsageError(f"the passes of {name} have different numbers of rows; take them from passes[{name!r}]")
        most = max(weights.shape[-1] for weights in passes)
        return torch.cat([F.pad(weights, (0, most - weights.shape[-1])) for weights in passes], dim=2)

    def __iter__(self) -> Iterator[str]:
        return iter(self.passes)

    def __len__(self) -> int:
        return len(self.passes)

    def _repr_html_(self) -> str:
        """How notebooks show it: a picture of each head in the last pass, for the first sentence."""
        rows = []
        for name, passes in ((escape(name), passes) for name, passes in self.passes.items()):
            heads = passes[-1][0].float().cpu().numpy()
            addresses = [thumbnail_address(weights) for weights in heads]
            pictures = [f'<td><img src="{address}" alt="{name}" style="{PICTURE}">' for address in addresses]
            size = f"{heads.shape[1]} × {heads.shape[2]}"
            rows.append(f'<tr><th style="text-align:left">{name}<br>{size}</th>{"".join(pictures)}')
        return f"<table>{''.join(rows)}</table>"

    def add(self, attention: AttentionId, weights: Callable[[], Tensor]) -> None:
        """`weights` is called only if this attention belongs to the recorded model."""
        if attention.model in self._models:
            with torch.no_grad():
                self.passes.setdefault(attention.name, []).append(weights().detach())


class AttentionWatch:
    """The weights [B, H, Q, K] of each pass through one attention, with their gradients."""

    def __init__(self, attention: AttentionId) -> None:
        self.attention = attention
        self.passes: list[Tensor] = []

    def add(self, attention: AttentionId, weights: Callable[[], Tensor]) -> None:
        if attention == self.attention:
            self.passes.append(weights())


_observers: ContextVar[tuple[AttentionRecord | AttentionWatch, ...]] = ContextVar("attention observers", default=())
_observed = 0
"""How often something is observed, in any context: `torch.compile` reads a plain number, and no `ContextVar`."""


@contextmanager
def capture_attention(model: nn.Module) -> Iterator[AttentionRecord]:
    """Record the attention weights of all passes of `model`, and of its copies for inference.

    Outputs are bit-identical. Weights are recorded before dropout, without gradients.

    Examples:
        >>> import torch
        >>> from qkv import capture_attention, load_model
        >>> model = load_model("runs/reverse").model
        >>> src, src_keep, tgt_in = torch.tensor([[5, 6, 3]]), torch.ones(1, 3).bool(), torch.tensor([[2, 6]])
        >>> with capture_attention(model) as record:
        ...     states = model.states(src, src_keep, tgt_in)
        >>> record["decoder.layers.0.cross_attention"].shape  # [B, H, T, S]
        torch.Size([1, 4, 2, 3])
    """
    if NOWHERE in _attentions(model):
        name_attentions(model)
    record = AttentionRecord({attention.model for attention in _attentions(model)})
    with _observing(*_observers.get(), record):
        yield record


@contextmanager
def watch_attention(module: Identified) -> Iterator[list[Tensor]]:
    """The weights [B, H, Q, K] of the passes through one attention of a model, before dropout, for use in training."""
    watch = AttentionWatch(module.attention_id)
    with _observing(*_observers.get(), watch):
        yield watch.passes


@contextmanager
def _observing(*observers: AttentionRecord | AttentionWatch) -> Iterator[None]:
    """Reports go to these, and to no others."""
    global _observed
    token = _observers.set(observers)
    _observed += len(observers)
    try:
        yield
    finally:
        _observed -= len(observers)
        _observers.reset(token)


def recomputing() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """Contexts of a pass and of its recomputation in the backward pass, which computes for the same observers."""
    return nullcontext(), _observing(*_observers.get())


def _attentions(model: nn.Module) -> list[AttentionId]:
    known = (getattr(module, "attention_id", None) for module in model.modules())
    return [each for each in known if isinstance(each, AttentionId)]


def report(attention: AttentionId, weights: Callable[[], Tensor]) -> None:
    """Called by every attention after each pass; `weights` computes [B, H, Q, K] if a recorder is active."""
    if not _observed:
        return
    for observer in _observers.get():
        observer.add(attention, weights)

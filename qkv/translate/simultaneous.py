"""Simultaneous translation: the output is written while the source arrives."""

import copy
from collections.abc import Generator, Iterable
from dataclasses import dataclass

import torch

from qkv.core.errors import UsageError
from qkv.functional.monotonic.latency import average_lagging, differentiable_average_lagging
from qkv.inference.streaming import StreamingInference, StreamState
from qkv.layers.attention.cross.base import SourceNeeded
from qkv.layers.attention.cross.wait_k import set_wait
from qkv.models.saved.folder import SavedModel
from qkv.models.transformer.config import TransformerConfig, require_transformer_config
from qkv.models.transformer.model import Transformer, require_transformer
from qkv.search.base import SearchConfig
from qkv.search.hypothesis import first_max
from qkv.text.incremental import IncrementalEncoder
from qkv.text.special import NEVER_OUTPUT, SPECIAL


@dataclass(frozen=True)
class PartialTranslation:
    """The output so far.

    Examples:
        >>> from qkv.translate.simultaneous import PartialTranslation
        >>> PartialTranslation("a b", ["a", "b"], [2, 3], src_length=3, complete=True).average_lagging
        1.25
    """

    text: str
    tokens: list[str]
    delays: list[int]
    """How many source tokens had been read when each token was written, END counted."""
    src_length: int
    """How many source tokens have been read."""
    complete: bool
    """Whether the output has ended."""

    @property
    def average_lagging(self) -> float:
        """By how many source tokens the output is behind an ideal one, on average (Ma et al. 2019)."""
        return float(average_lagging(torch.tensor(self.delays, dtype=torch.float64), self.src_length))

    @property
    def differentiable_average_lagging(self) -> float:
        """The same where each token takes its time (Arivazhagan et al. 2019)."""
        return float(differentiable_average_lagging(torch.tensor(self.delays, dtype=torch.float64), self.src_length))


def require_streaming(config: TransformerConfig) -> None:
    """Raises UsageError if a model of this config needs the whole source before its first output."""
    if problem := config.needs_whole_source:
        raise UsageError(
            f"this model cannot translate while the source arrives: its {problem} when you train one "
            "(model.streaming=true checks it at once)"
        )


class SimultaneousTranslator:
    """Greedy search that reads a source token when the next output token needs it, and not before."""

    def __init__(self, saved: SavedModel, search: SearchConfig, k: int | None = None) -> None:
        config = require_transformer_config(saved.config.model, "simultaneous translation")
        require_streaming(config)
        model: Transformer = require_transformer(saved.model, "simultaneous translation")
        if k is not None:
            model = copy.deepcopy(model)
            set_wait(model, k)
        self.lookahead = (config.encoder_attention.lookahead or 0) * model.encoder.num_layers
        self.model, self.head = StreamingInference(model, self.lookahead), model.head
        self.tokenizers, self.search, self.tgt_limit = saved.tokenizers, search, model.limits.tgt
        self.device = model.device

    def translate(self, pieces: Iterable[str]) -> Generator[PartialTranslation]:
        """The output so far, whenever it has become longer, and at its end."""
        encoder, writer = IncrementalEncoder(self.tokenizers.src), _Writer(self)
        for piece in pieces:
            written = len(writer.tokens)
            for token in encoder.feed(piece):
                writer.read(token, last=False)
            if writer.complete:
                break
            if len(writer.tokens) > written:
                yield writer.partial()
        else:
            rest = encoder.finish()
            # An empty text has an empty translation.
            for token in [*rest, SPECIAL.eos] if encoder.ids else []:
                writer.read(token, last=token == SPECIAL.eos)
            writer.complete = True
        yield writer.partial()


class _Writer:
    """The output of one source."""

    def __init__(self, translator: SimultaneousTranslator) -> None:
        self.translator = translator
        self.first: list[int] = []
        """Source tokens that wait for those by which the encoder looks ahead."""
        self.state: StreamState | None = None
        self.tokens: list[int] = []
        self.delays: list[int] = []
        self.complete = False

    @torch.inference_mode()
    def read(self, token: int, last: bool) -> None:
        """Read a source token, and write what can be written."""
        if self.complete:
            return
        model = self.translator.model
        if self.state is None:
            self.first.append(token)
            if len(self.first) <= self.translator.lookahead and not last:
                return
            self.state = model.start(self._ids([self.first]), last)
        else:
            self.state = model.read(self._ids([[token]]), self.state, last)
        limits = self.translator.search.limits(self.state.length, self.translator.tgt_limit)
        while not self.complete and len(self.tokens) < limits.max_length:
            before = self._ids([self.tokens[-1] if self.tokens else SPECIAL.bos])
            try:
                (states, context), self.state = model.write(before, self.state)
            except SourceNeeded:
                return
            log_probs = self.translator.head.log_probs(states, context, never=NEVER_OUTPUT)[0]
            found = first_max(log_probs)[0][0]
            self.complete = found == SPECIAL.eos
            if not self.complete:
                self.tokens.append(found)
                self.delays.append(self.state.length)
        self.complete = self.complete or last

    def _ids(self, ids: list[int] | list[list[int]]) -> torch.Tensor:
        """On the model's device."""
        return torch.tensor(ids, device=self.translator.device)

    def partial(self) -> PartialTranslation:
        tokenizer = self.translator.tokenizers.tgt
        return PartialTranslation(
            tokenizer.decode(self.tokens),
            tokenizer.tokens(self.tokens),
            list(self.delays),
            len(self.first) if self.state is None else self.state.length,
            self.complete,
        )

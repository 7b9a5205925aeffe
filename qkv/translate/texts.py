"""From texts to token ids, batches, hypotheses and back to texts, in the order of the input."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from typing import NamedTuple

from qkv.core.errors import ArgumentError, QkvError, UsageError
from qkv.data.batching import by_length
from qkv.engines.alignments import AlignmentHead
from qkv.engines.base import DecodeRequest, Engine
from qkv.search.base import Constraints, SearchConfig
from qkv.search.hypothesis import Hypothesis, LikelyId
from qkv.text import SPECIAL, TokenizerPair
from qkv.text.given import type_name
from qkv.text.tokenizer import OutputTokenizer
from qkv.text.unknown.count import unknown_pieces
from qkv.translate.output import TokenChoice, Translation
from qkv.translate.rule_texts import RuleTexts
from qkv.translate.splitting import Known, Splitter, SplitText, joined, parts_behind, without_beginning

CountDone = Callable[[int], None]
"""Called after each step with the number of finished texts; raising stops the work."""


class Unfinished(NamedTuple):
    """What is written so far for one source, or for one part of a long one."""

    source: int
    """Its number, from 0."""
    part: int
    """The number of the part, from 0."""
    text: str
    tokens: list[str]


WatchTexts = Callable[[Unfinished], None]


@dataclass(frozen=True)
class SourceText:
    """A source text with the constraints on its output."""

    text: str
    prefix: str = ""
    """The output begins with this."""
    required: tuple[str, ...] = ()
    """The output has each of these in it."""
    prefix_tokens: tuple[str, ...] = ()
    """The output begins with these tokens, as `Translation.tokens` has them; instead of `prefix`."""

    @property
    def beginning(self) -> tuple[str, tuple[str, ...]]:
        """What the output begins with: as a text, or in tokens."""
        return self.prefix, self.prefix_tokens


@dataclass(frozen=True)
class DecodeOptions:
    """What to return for every text."""

    nbest: int = 1
    alignment: bool | AlignmentHead = False
    """Whether to say where tokens look in the source, and which head says so; True: the mean over the last layer's."""
    token_scores: bool = True
    """Without them some engines are faster."""
    forbidden: tuple[str, ...] = ()
    """The output has none of these in it."""
    prefixes: bool = False
    """Whether there may be sources with a prefix."""
    required: bool = False
    """Whether there may be sources with required words."""
    copies: bool = False
    """Whether to say which tokens are copies of which source tokens."""
    likely: int = 0
    """How many of the most probable tokens of each place to return."""
    watched: bool = False
    """Whether outputs are told while they are written, which some engines cannot do."""

    def __post_init__(self) -> None:
        if not isinstance(self.nbest, int) or isinstance(self.nbest, bool):
            raise ArgumentError(f"nbest: must be a whole number, not {type_name(self.nbest)}")
        if self.likely < 0:
            raise UsageError(f"likely is {self.likely}, but no place has fewer than 0 tokens; give 0 or more")
        if self.nbest < 1:
            raise UsageError(f"nbest is {self.nbest}, but a text has at least one output; give 1 or more")


@dataclass(frozen=True)
class Reading:
    """How long texts are treated."""

    max_src_tokens: int | None = None
    """The most tokens of a source, END included; None: as many as the engine can read."""
    split: bool = True
    """A longer text is split; False: it is cut."""
    overlap: bool = False
    """Each part is read together with the one before it."""
    known: Known | None = None
    """What the model was trained on, if that is known."""


@dataclass(frozen=True)
class PreparedTexts:
    """Sources, or parts of long ones, as the engine reads them. An empty text has no ids and is not decoded."""

    ids: list[list[int]]
    cut: list[bool]
    constraints: list[Constraints]
    batches: list[list[int]]
    """Which parts are decoded together."""
    splits: list[SplitText]
    """The parts of each source, which follow each other."""
    outputs: list[OutputTokenizer]
    """What reads and writes the outputs of each."""

    @cached_property
    def texts(self) -> list[str]:
        """The parts one after another."""
        return [part for split in self.splits for part in split.parts]

    def unfinished(self, number: int, ids: list[int]) -> Unfinished:
        """What a part says so far."""
        output, written = self.outputs[number], [i for i in ids if i != SPECIAL.eos]
        return Unfinished(*self._places[number], output.decode(written), output.tokens(written))

    @cached_property
    def _places(self) -> list[tuple[int, int]]:
        """For each part the number of its source, and its own number there."""
        return [(source, part) for source, split in enumerate(self.splits) for part in range(len(split.parts))]


class TextDecoder:
    """Decodes texts with one engine and one search."""

    def __init__(
        self,
        engine: Engine,
        tokenizers: TokenizerPair,
        search: SearchConfig,
        options: DecodeOptions,
        batch_tokens: int | None = None,
        reading: Reading | None = None,
    ) -> None:
        self.engine = engine
        self.tokenizers = tokenizers
        self.search = search
        self.options = options
        self.batch_tokens = batch_tokens or engine.batch_tokens
        self.reading = reading or Reading()
        limits = [
            limit for limit in (self.reading.max_src_tokens, engine.src_limit, search.src_limit) if limit is not None
        ]
        self.longest = min(limits, default=None)
        # Two overlapping parts are read together.
        halved = self.longest and (max(2, self.longest // 2) if self.reading.overlap else self.longest)
        self.splitter = Splitter(tokenizers.src, halved, self.reading.known)
        self.rules = RuleTexts(tokenizers.tgt, options.forbidden)

    def __call__(
        self, sources: Sequence[SourceText], tick: CountDone = lambda done: None, watch: WatchTexts | None = None
    ) -> list[Translation]:
        """The translations in order. `watch` sees how each becomes longer, if the search writes token by token."""
        prepared = self.prepare(sources)
        found: list[list[list[Hypothesis]]] = []
        done = sum(not ids for ids in prepared.ids)
        for batch in prepared.batches:
            after_step = partial(tick, done * len(sources) // len(prepared.ids))
            found.append(self.decode(prepared, batch, after_step, watch))
            done += len(batch)
            tick(done * len(sources) // len(prepared.ids))
        return self.finish(prepared, found)

    def prepare(self, sources: Sequence[SourceText]) -> PreparedTexts:
        whole = self._encode([item.text for item in sources])
        splits = [self._split(item, len(ids)) for item, ids in zip(sources, whole, strict=True)]
        if any(len(split.parts) > 1 for split in splits):
            whole = self._encode([part for split in splits for part in split.parts])
        end = self.tokenizers.src.special.eos
        cut = [self.longest is not None and len(ids) > self.longest for ids in whole]
        ids = [
            [*ids[: self.longest - 1], end] if self.longest and is_cut else ids
            for ids, is_cut in zip(whole, cut, strict=True)
        ]
        parts = [
            (item, number, part)
            for item, split in zip(sources, splits, strict=True)
            for number, part in enumerate(split.parts)
        ]
        outputs = [self.tokenizers.output_of(part, own) for (_, _, part), own in zip(parts, ids, strict=True)]
        constraints = [
            self.rules.constraints(own, item.text, *(("", ()) if number else item.beginning), item.required)
            for (item, number, _), own in zip(parts, outputs, strict=True)
        ]
        filled = [number for number, own in enumerate(ids) if own]
        batches = by_length([len(ids[number]) for number in filled], self.search.rows, self.batch_tokens)
        batches = [[filled[place] for place in batch] for batch in batches]
        return PreparedTexts(ids, cut, constraints, batches, splits, outputs)

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids with END; none for an empty text."""
        encoded = zip(texts, self.tokenizers.src.encode_batch(texts), strict=True)
        end = self.tokenizers.src.special.eos
        return [[*self.tokenizers.linked(text, "", ids, [])[0], end] if ids else [] for text, ids in encoded]

    def _split(self, source: SourceText, tokens: int) -> SplitText:
        if not self.reading.split or self.splitter.fits(tokens):
            return SplitText([source.text])
        split = self.splitter.split(source.text)
        if source.required and len(split.parts) > 1:
            raise UsageError(
                f"a text of {tokens:,} tokens is translated in parts, so it cannot take required words; shorten it, or "
                "raise max_src_tokens"
            )
        if self.search.exact_length is not None and len(split.parts) > 1:
            raise UsageError(
                f"a text of {tokens:,} tokens is translated in parts, so it cannot have a given length; use "
                "search.length_factor, or raise max_src_tokens"
            )
        return split

    def decode(
        self,
        prepared: PreparedTexts,
        batch: Sequence[int],
        after_step: Callable[[], None] = lambda: None,
        watch: WatchTexts | None = None,
    ) -> list[list[Hypothesis]]:
        request = DecodeRequest(
            self.search,
            self.options.nbest,
            [prepared.constraints[number] for number in batch],
            self.options.alignment,
            self.options.token_scores,
            [prepared.outputs[number].decode for number in batch],
            self.options.copies,
            after_step,
            self.options.likely,
            None if watch is None else lambda place, ids: watch(prepared.unfinished(batch[place], ids)),
        )
        with self._enough_memory():
            sources = [prepared.ids[number] for number in batch]
            return self.engine.decode(sources, request)

    @contextmanager
    def _enough_memory(self) -> Iterator[None]:
        """Engines report a failed allocation in different ways; other errors pass through."""
        try:
            yield
        except (RuntimeError, MemoryError) as error:
            if isinstance(error, MemoryError) or any(word in str(error).lower() for word in ("memory", "alloc")):
                raise QkvError(
                    f"the engine {self.engine.name} has not enough memory for a batch of {self.batch_tokens:,} source "
                    "tokens; lower batch_tokens or max_src_tokens"
                ) from error
            raise

    def finish(self, prepared: PreparedTexts, found: Sequence[list[list[Hypothesis]]]) -> list[Translation]:
        """The translations in the order of the sources; `found` has the hypotheses of each batch."""
        hypotheses: list[list[Hypothesis]] = [[] for _ in prepared.ids]
        for batch, lists in zip(prepared.batches, found, strict=True):
            for number, own in zip(batch, lists, strict=True):
                hypotheses[number] = own
        if self.reading.overlap:
            hypotheses = self._overlapping(prepared, hypotheses)
        parts = iter([self._translation(prepared, number, own) for number, own in enumerate(hypotheses)])
        return [joined(list(islice(parts, len(split.parts))), split) for split in prepared.splits]

    def _overlapping(self, prepared: PreparedTexts, alone: list[list[Hypothesis]]) -> list[list[Hypothesis]]:
        """The same, but each part after the first is translated again, together with the preceding one."""
        behind = parts_behind(prepared.splits, prepared.ids, alone)
        again = replace(prepared, ids=self._encode([part.text for part in behind]))
        outputs = [self.tokenizers.output_of(part.text, ids) for part, ids in zip(behind, again.ids, strict=True)]
        constraints = [replace(prepared.constraints[part.number], prefix=part.prefix) for part in behind]
        lengths = [len(ids) for ids in again.ids]
        batches = by_length(lengths, self.search.rows, self.batch_tokens)
        again = replace(again, constraints=constraints, outputs=outputs, batches=batches)
        for batch in again.batches:
            for place, found in zip(batch, self.decode(again, batch), strict=True):
                part = behind[place]
                alone[part.number] = [without_beginning(one, part, prepared.ids[part.number]) for one in found]
        return alone

    def _translation(self, prepared: PreparedTexts, number: int, hypotheses: list[Hypothesis]) -> Translation:
        tgt = prepared.outputs[number]
        shared = tgt if self.tokenizers.shared else self.tokenizers.src
        src_tokens = shared.tokens(prepared.ids[number])
        unknown = self._unknown(prepared, number)
        if not hypotheses:
            return Translation("", 0.0, [], [], src_tokens, unknown, alignment=[] if self.options.alignment else None)
        each = [
            Translation(
                text=tgt.decode(one.tokens),
                score=one.score,
                tokens=tgt.tokens(one.tokens),
                token_scores=one.token_scores,
                src_tokens=src_tokens,
                unknown=unknown,
                src_cut=prepared.cut[number],
                out_cut=not one.ended,
                alignment=one.attention if self.options.alignment else None,
                passes=one.passes,
                copied=one.copied,
                likely=_likely(one.likely, tgt),
            )
            for one in hypotheses
        ]
        return replace(each[0], alternatives=each[1:])

    def _unknown(self, prepared: PreparedTexts, number: int) -> list[str]:
        src = self.tokenizers.src
        known = all(i != src.special.unk and i < len(src) for i in prepared.ids[number])
        return [] if known else unknown_pieces(src, prepared.texts[number])


def _likely(places: list[list[LikelyId]] | None, tokenizer: OutputTokenizer) -> list[list[TokenChoice]] | None:
    if places is None:
        return None
    return [
        [
            TokenChoice(token, one.probability)
            for token, one in zip(tokenizer.tokens([one.token for one in own]), own, strict=True)
        ]
        for own in places
    ]

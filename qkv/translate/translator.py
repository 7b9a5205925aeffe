"""Texts in, translations out, in order: a list, or a stream of any length."""

import copy
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing, nullcontext
from functools import cached_property
from itertools import chain, islice
from typing import Any, Literal, overload

from qkv.config import validate
from qkv.core.devices import CPU
from qkv.core.errors import UsageError
from qkv.core.files import read_manifest
from qkv.data.batching import in_chunks
from qkv.engines.alignments import AlignmentHead
from qkv.engines.base import DecodeRequest
from qkv.engines.choose import Engines
from qkv.engines.drafts import choose_draft
from qkv.engines.fast_engines import EngineName, engines
from qkv.engines.model_set import ModelLike, ModelSet
from qkv.engines.torch_engine import DecodingPrecision, TorchEngine, TorchSettings, evaluating
from qkv.kernels.threads import bounded_workers, using_threads
from qkv.models.saved.locate import locate_model
from qkv.search.base import Constraints, SearchConfig, SteppedSearch
from qkv.search.capacity import require_search_memory
from qkv.search.default import default_search
from qkv.search.greedy import GreedyConfig
from qkv.search.scoring import BATCH_TOKENS, PairScore, score_pairs
from qkv.search.speculative.drafters import DrafterConfig
from qkv.search.speculative.drafting import DraftLike, require_draft
from qkv.search.speculative.search import speculative
from qkv.text import SPECIAL
from qkv.text.given import checked_texts
from qkv.translate.arguments import TranslatorArguments
from qkv.translate.jobs.team import translate_in_team, translate_in_threads
from qkv.translate.jobs.worker import Setup
from qkv.translate.output import Translation
from qkv.translate.simultaneous import PartialTranslation, SimultaneousTranslator
from qkv.translate.sources import TextPair, checked_pairs, is_one_pair, sources_of
from qkv.translate.splitting import Known
from qkv.translate.texts import DecodeOptions, Reading, SourceText, TextDecoder

ReportProgress = Callable[[int, int], None]
"""Called with (done, total) from time to time; raising stops the work."""
CHUNK = 512
"""Lines of a stream that are sorted and batched together."""
PATIENCE = 3.0
"""Seconds of work in one process before it is worth starting others."""
MAX_SRC_TOKENS = 1024
MOST_DECODERS = 32
"""Decoders that a translator keeps: one for each combination of options that it was asked for, such as words."""


class Translator:
    """Translates texts with one model, or with an ensemble of models that share a vocabulary.

    Each is the folder of a model or of a run, or a model in memory.

    `search` is a config such as `BeamConfig(size=10)`, the word for a kind (`"greedy"`) or a dict of keys; None: the
    model's default search.
    `workers` processes, or threads of the fast engine, share a long list or stream (auto: one for each core);
    processes need folders.
    A batch holds `batch_tokens` source tokens at most, padding included and counted once for each hypothesis; by
    default as many as the engine likes. A source longer than `max_src_tokens`, or than the model can read, is split at
    ends of sentences where it can be (`split_long`; else it is cut), and its translation says so; with `overlap` each
    part is read behind the one before it.
    `draft` makes greedy search faster with the same output: a drafter (`DrafterConfig`), the word for one (jacobi,
    input, own), or the folder of a non-autoregressive model; auto: the one that the model's folder carries, if any.
    The model runs on `device`: cpu, cuda, cuda:N, mps or xpu; auto: the accelerator if there is one, else the CPU, but
    a model in memory stays where it is. Processes share a list on a CPU only.
    `precision` is that of weights and activations, fp32, fp16 or bf16; softmax, norms and scores are in float32. With
    `static_shapes` the tensors of a step keep their shapes, so that a CUDA device replays it as one graph. Both are for
    accelerators, and choose the engine torch.

    Examples:
        >>> from qkv import Translator
        >>> translator = Translator("runs/reverse", search={"kind": "beam", "size": 4})
        >>> [type(found.text) for found in translator.translate(["abc", "ca"])]
        [<class 'str'>, <class 'str'>]
        >>> translator.score(("abc", "cba")).tokens
        ['c', 'b', 'a']
    """

    def __init__(
        self,
        model: ModelLike | Sequence[ModelLike],
        engine: EngineName = "auto",
        search: SearchConfig | str | Mapping[str, Any] | None = None,
        workers: int | Literal["auto"] = "auto",
        batch_tokens: int | None = None,
        max_src_tokens: int | None = MAX_SRC_TOKENS,
        split_long: bool = True,
        overlap: bool = False,
        draft: DraftLike = "auto",
        device: str = "auto",
        precision: DecodingPrecision = "fp32",
        static_shapes: bool = False,
    ) -> None:
        given = validate(
            TranslatorArguments,
            {
                "engine": engine,
                "search": search,
                "workers": workers,
                "batch_tokens": batch_tokens,
                "max_src_tokens": max_src_tokens,
                "split_long": split_long,
                "overlap": overlap,
                "device": device,
                "precision": precision,
                "static_shapes": static_shapes,
            },
            "Translator",
        )
        require_draft(draft)
        self.models = ModelSet(model, given.device)
        self.workers = bounded_workers(given.workers, "workers")
        settings = TorchSettings(given.precision, given.static_shapes)
        self.engines = Engines(self.models, given.engine, self.workers, given.max_src_tokens, settings)
        self._draft = draft
        if engines[given.engine] is not None:
            if draft not in ("auto", "none", None):
                raise UsageError(f"the engine {given.engine} takes no drafts; use the engine torch")
            self._draft = None
        self._search = given.search
        self.batch_tokens = given.batch_tokens
        self.max_src_tokens = given.max_src_tokens
        self.split_long, self.overlap = given.split_long, given.overlap
        self._decoders: dict[DecodeOptions, TextDecoder] = {}
        self._compared: set[DecodeOptions] = set()

    @cached_property
    def search(self) -> SearchConfig:
        """The given search or the model's default, with the model's limits where it sets none."""
        search = self._search or default_search(self.models.config)
        return search.within(self.models.config.length_limit)

    def with_search(self, search: SearchConfig) -> "Translator":
        """Another translator with this search, which shares the models and engines."""
        other = copy.copy(self)
        # An engine that was compared for one search may be worse at another.
        other._search, other._decoders, other._compared = search, {}, set()
        for known in ("search", "reading", "draft", "_drafted"):
            other.__dict__.pop(known, None)
        return other

    @cached_property
    def draft(self) -> DrafterConfig | None:
        """What drafts for the search; None: nothing."""
        return choose_draft(self._draft, self.models, self.search)

    @property
    def checksums(self) -> list[str]:
        """What identifies every model that the output depends on."""
        others = [read_manifest(locate_model(path))["checksum"] for path in self.search.other_models]
        return self.models.checksums + others

    @cached_property
    def reading(self) -> Reading:
        """How long texts are treated."""
        if self.overlap and isinstance(self.search, SteppedSearch) and self.search.wants_length:
            raise UsageError("a wanted length and parts that overlap do not go together; leave out one of them")
        if self.overlap and self.models.config.seq2seq.head.copies:
            raise UsageError(
                "parts that overlap do not go with a head that copies: each part numbers its unknown words for itself; "
                "leave out overlap"
            )
        known = Known(self.models.config.longest_src, self.models.config.median_src)
        return Reading(self.max_src_tokens, self.split_long, self.overlap, known)

    @overload
    def translate(  # type: ignore[overload-overlap]  # a text is an iterable of texts, too
        self,
        texts: str,
        nbest: int = 1,
        alignment: bool | AlignmentHead = False,
        token_scores: bool = True,
        prefixes: str | None = None,
        forbidden: Iterable[str] = (),
        required: Iterable[str] | None = None,
        progress: ReportProgress = ...,
        copies: bool = False,
        likely: int = 0,
    ) -> Translation: ...

    @overload
    def translate(
        self,
        texts: Iterable[str],
        nbest: int = 1,
        alignment: bool | AlignmentHead = False,
        token_scores: bool = True,
        prefixes: Iterable[str] | None = None,
        forbidden: Iterable[str] = (),
        required: Iterable[Iterable[str]] | None = None,
        progress: ReportProgress = ...,
        copies: bool = False,
        likely: int = 0,
    ) -> list[Translation]: ...

    def translate(
        self,
        texts: Any,
        nbest: int = 1,
        alignment: bool | AlignmentHead = False,
        token_scores: bool = True,
        prefixes: Any = None,
        forbidden: Iterable[str] = (),
        required: Any = None,
        progress: ReportProgress = lambda done, total: None,
        copies: bool = False,
        likely: int = 0,
    ) -> Translation | list[Translation]:
        """The translation of one text, or of each text of a list, in order; an empty text has an empty one.

        `nbest` asks for so many outputs of a text (`Translation.alternatives`), `alignment` for how much each of their
        tokens attended to each source token (True: by the mean over the heads of the last layer; an `AlignmentHead`:
        by that one). `prefixes` has the beginning and `required` the words of the output of
        each text (of one text, its beginning and its words); `forbidden` words are in none. Each of these is one
        sequence of tokens: the same letters in other pieces are something else. `copies` asks a model with a head that
        copies which tokens it copied, and from where (`Translation.copied`). `likely` asks for so many of the most
        probable tokens of each place (`Translation.likely`).
        """
        if isinstance(texts, str):
            prefixes, required = (None if own is None else [own] for own in (prefixes, required))
            rest = token_scores, prefixes, forbidden, required, progress, copies, likely
            several = self.translate([texts], nbest, alignment, *rest)
            return several[0]
        sources = list(sources_of(texts, prefixes, required))
        rules = tuple(checked_texts("forbidden", forbidden))
        given = prefixes is not None, required is not None
        options = DecodeOptions(nbest, alignment, token_scores, rules, *given, copies, likely)
        decoder = self.compared(options, sources[:CHUNK])
        if isinstance(decoder.engine, TorchEngine) and (len(sources) <= CHUNK or not self.models.folders):
            return decoder(sources, lambda done: progress(done, len(sources)))
        if len(sources) == 1 and len((prepared := decoder.prepare(sources)).batches) == 1:
            # Starting a thread for a single batch would take as long as a short sentence.
            return decoder.finish(prepared, [decoder.decode(prepared, prepared.batches[0])])
        found: list[Translation] = []
        with closing(self.chunks(sources, options)) as chunks:
            for chunk in chunks:
                found += chunk
                progress(len(found), len(sources))
        return found

    def stream(
        self,
        lines: Iterable[str],
        nbest: int = 1,
        alignment: bool | AlignmentHead = False,
        token_scores: bool = True,
        prefixes: Iterable[str] | None = None,
        forbidden: Iterable[str] = (),
        required: Iterable[Iterable[str]] | None = None,
        copies: bool = False,
        likely: int = 0,
    ) -> Generator[Translation]:
        """The same for a stream of any length; few lines are in memory at once. Closing it stops everything."""
        rules = tuple(checked_texts("forbidden", forbidden))
        given = prefixes is not None, required is not None
        options = DecodeOptions(nbest, alignment, token_scores, rules, *given, copies, likely)
        return _one_by_one(self.chunks(sources_of(lines, prefixes, required), options))

    def simultaneous(self, pieces: Iterable[str], k: int | None = None) -> Generator[PartialTranslation]:
        """The translation of one text that arrives in pieces: the output so far, whenever it has become longer.

        Nothing is written that what follows could change, so the last output is that of greedy search on the whole
        text. The model needs an encoder that does not look ahead and cross-attention of the kind monotonic, mocha or
        wait_k; `k` changes how far wait_k stays behind.
        """
        if len(self.models.loaded) > 1:
            raise UsageError("several models cannot vote while the source arrives; give one of them")
        return SimultaneousTranslator(self.models.loaded[0], self.search, k).translate(pieces)

    def chunks(
        self, sources: Iterable[SourceText], options: DecodeOptions, start: int = 0
    ) -> Generator[list[Translation]]:
        """The translations of `CHUNK` sources at a time. `start` sources, whole chunks, were translated before.

        The output of a chunk depends on that chunk alone, however many processes there are: with more than one chunk,
        each is translated by one thread.
        """
        pieces = in_chunks(sources, CHUNK)
        first = list(islice(pieces, 2))
        pieces = chain(first, pieces)
        decoder = self.compared(options, first[0]) if first and not start else self.decoder(options)
        if not isinstance(decoder.engine, TorchEngine):
            yield from translate_in_threads(decoder, pieces)
            return
        alone = len(first) < 2 and not start
        began = time.monotonic()
        for piece in pieces:
            if (
                self.workers > 1
                and self.models.folders
                and self.models.device == CPU
                and time.monotonic() - began > PATIENCE
            ):
                yield from translate_in_team(self.worker_setup(options), self.workers, chain([piece], pieces))
                return
            with nullcontext() if alone or not self.models.folders else using_threads(1):
                found = decoder(piece)
            yield found

    def decoder(self, options: DecodeOptions) -> TextDecoder:
        """The decoder of this process, with the engine that supports the options."""
        if options.copies and not self.models.config.seq2seq.head.copies:
            kind = self.models.config.seq2seq.head.kind
            raise UsageError(f"the model's head, {kind}, copies nothing; leave out copies, or train a head copynet")
        if options not in self._decoders:
            require_search_memory(self.search, self.models.config, len(self.models.tokenizers.tgt))
            engine = self.engines.choose(self._example(options))
            self._decoders[options] = TextDecoder(
                engine, self.models.tokenizers, self._drafted, options, self.batch_tokens, self.reading
            )
            if len(self._decoders) > MOST_DECODERS:
                self._compared.discard(oldest := next(iter(self._decoders)))
                del self._decoders[oldest]
        return self._decoders[options]

    def compared(self, options: DecodeOptions, sources: Sequence[SourceText]) -> TextDecoder:
        """The same, once its engine was compared with torch on some of these first sources."""
        decoder = self.decoder(options)
        if options not in self._compared:
            engine = self.engines.compare(decoder.engine, self._example(options), lambda: decoder.prepare(sources).ids)
            self._compared.add(options)
            if engine is not decoder.engine:
                self._decoders.clear()
        return self.decoder(options)

    def _example(self, options: DecodeOptions) -> DecodeRequest:
        """A request by which an engine can tell whether it supports the options."""
        some = [SPECIAL.unk]
        constraints = Constraints(
            prefix=some if options.prefixes or self.overlap else (),
            forbidden=[some] if options.forbidden else (),
            required=[some] if options.required else (),
        )
        return DecodeRequest(
            self._drafted,
            options.nbest,
            [constraints],
            options.alignment,
            options.token_scores,
            copies=options.copies,
            likely=options.likely,
            watch=(lambda place, tokens: None) if options.watched else None,
        )

    def worker_setup(self, options: DecodeOptions) -> Setup:
        """What a worker process needs to decode as this one does."""
        folders, checksums = self.models.folders, self.models.checksums
        plain = folders, checksums, self._drafted, options, self.batch_tokens, self.reading
        return Setup(*plain, torch=self.engines.settings)

    @cached_property
    def _drafted(self) -> SearchConfig:
        """`search`, with the drafter that there is for it."""
        if self.draft is not None and isinstance(self.search, GreedyConfig):
            return speculative(self.search, self.draft)
        return self.search

    @overload
    def score(self, pairs: TextPair, first: int = 1, progress: ReportProgress = ...) -> PairScore: ...

    @overload
    def score(self, pairs: Iterable[TextPair], first: int = 1, progress: ReportProgress = ...) -> list[PairScore]: ...

    def score(
        self, pairs: Any, first: int = 1, progress: ReportProgress = lambda done, total: None
    ) -> PairScore | list[PairScore]:
        """log p(target | source) of one pair, a tuple of two texts, or of each pair of a list, in order.

        Messages number the pairs from `first` on.
        """
        if is_one_pair(pairs):
            return self._score([pairs], first, progress)[0]
        return self._score(checked_pairs(pairs), first, progress)

    def _score(self, pairs: list[TextPair], first: int, progress: ReportProgress) -> list[PairScore]:
        models = [saved.model for saved in self.models.loaded]
        for model in models:
            if model.inference().steps is None:
                raise UsageError(f"a model of the kind {model.kind} scores no given target; give an autoregressive one")
        with evaluating(models):
            return score_pairs(
                models, self.models.tokenizers, pairs, self.batch_tokens or BATCH_TOKENS, first, progress
            )


def _one_by_one(chunks: Generator[list[Translation]]) -> Generator[Translation]:
    with closing(chunks):
        for chunk in chunks:
            yield from chunk

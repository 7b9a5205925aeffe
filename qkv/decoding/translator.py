"""Texts in, translations out, in order: a list, or a stream of any length."""

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, nullcontext
from functools import cached_property
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Literal

from qkv.decoding.batching import in_chunks
from qkv.decoding.drafters import DrafterConfig
from qkv.decoding.drafting import DraftLike, choose_draft
from qkv.decoding.engine import DecodeRequest
from qkv.decoding.engines import EngineName, Engines
from qkv.decoding.fast_engines import FAST
from qkv.decoding.model_set import ModelLike, ModelSet
from qkv.decoding.refine import RefineConfig, rescorer_for
from qkv.decoding.refinement.rescoring import Rescorer
from qkv.decoding.scoring import BATCH_TOKENS, PairScore, score_pairs
from qkv.decoding.search import Constraints, SearchConfig
from qkv.decoding.splitting import Known
from qkv.decoding.stepped import SteppedSearch
from qkv.decoding.team import translate_in_team
from qkv.decoding.texts import Reading, Source, TextDecoder, Wishes
from qkv.decoding.threads import translate_in_threads
from qkv.decoding.torch_engine import TorchEngine, evaluating
from qkv.decoding.translation import Translation
from qkv.decoding.usual import usual_search
from qkv.decoding.worker import Setup
from qkv.errors import UsageError
from qkv.files import read_manifest
from qkv.kernels.threads import cores, using_threads
from qkv.models.folder import SavedModel
from qkv.models.locate import locate_model
from qkv.models.parallel import ParallelModel
from qkv.text import SPECIAL

Progress = Callable[[int, int], None]
"""Called with (done, total) now and then; it stops the work by raising."""
CHUNK = 512
"""Lines of a stream that are sorted and batched together."""
PATIENCE = 3.0
"""Seconds of work in one process before it is worth starting others."""
MAX_SRC_TOKENS = 1024


class Translator:
    """One model, or several with one vocabulary that vote; each the folder of a model or of a run, or in memory.

    `workers` processes, or threads of the fast engine, share a long list or stream (auto: one for each core);
    processes need folders.
    A batch holds `batch_tokens` source tokens at most, padding included and counted once for each hypothesis; by
    default as many as the engine likes. A source longer than `max_src_tokens`, or than the model can read, is split at
    ends of sentences where it can be (`split_long`; else it is cut), and its translation says so; with `overlap` each
    part is read behind the one before it.
    `draft` makes greedy search faster with the same output: a drafter (`DrafterConfig`), the word for one (jacobi,
    input, own), or the folder of a non-autoregressive model; auto: the one that the model's folder carries, if any.
    """

    def __init__(
        self,
        model: ModelLike | Sequence[ModelLike],
        engine: EngineName = "auto",
        search: SearchConfig | None = None,
        workers: int | Literal["auto"] = "auto",
        batch_tokens: int | None = None,
        max_src_tokens: int | None = MAX_SRC_TOKENS,
        split_long: bool = True,
        overlap: bool = False,
        draft: DraftLike = "auto",
    ) -> None:
        self.models = ModelSet([model] if isinstance(model, Path | str | SavedModel) else model)
        self.workers = cores() if workers == "auto" else workers
        self.engines = Engines(self.models, engine, self.workers, max_src_tokens, self._drafter, self._rescorer)
        self._draft = draft
        if engine in FAST:
            if draft not in ("auto", "none", None):
                raise UsageError(f"the engine {engine} takes no drafts; use the engine torch")
            self._draft = None
        self._search = search
        self.batch_tokens = batch_tokens
        self.max_src_tokens = max_src_tokens
        self.split_long, self.overlap = split_long, overlap
        self._decoders: dict[Wishes, TextDecoder] = {}

    @cached_property
    def search(self) -> SearchConfig:
        """What was asked for, or what is usual for the model; with the model's limits where it sets none."""
        search = self._search or usual_search(self.models.config)
        return search.within(self.models.config.length_limit)

    @property
    def seals(self) -> list[str]:
        """What identifies every model that the output depends on."""
        chooser = self.search.rescore if isinstance(self.search, RefineConfig) else None
        return self.models.seals + ([] if chooser is None else [read_manifest(locate_model(chooser))["seal"]])

    @cached_property
    def reading(self) -> Reading:
        """What becomes of long texts."""
        if self.overlap and isinstance(self.search, SteppedSearch) and self.search.wants_length:
            raise UsageError("a wanted length and parts that overlap do not go together; leave out one of them")
        known = Known(self.models.config.longest_src, self.models.config.median_src)
        return Reading(self.max_src_tokens, self.split_long, self.overlap, known)

    def translate(
        self,
        texts: Sequence[str],
        nbest: int = 1,
        alignment: bool = False,
        token_scores: bool = True,
        prefixes: Sequence[str] | None = None,
        forbidden: Sequence[str] = (),
        required: Sequence[Sequence[str]] | None = None,
        progress: Progress = lambda done, total: None,
    ) -> list[Translation]:
        """A translation of each text, in order; an empty text has an empty one.

        `prefixes` has the beginning and `required` the words of the output of each text; `forbidden` words are in none.
        Each of these is one sequence of tokens: the same letters in other pieces are something else.
        """
        sources = list(_sources(texts, prefixes, required))
        wishes = Wishes(nbest, alignment, token_scores, tuple(forbidden), prefixes is not None, required is not None)
        decoder = self.decoder(wishes)
        if isinstance(decoder.engine, TorchEngine) and (len(sources) <= CHUNK or not self.models.folders):
            return decoder(sources, lambda done: progress(done, len(sources)))
        if len(sources) == 1 and len((prepared := decoder.prepare(sources)).batches) == 1:
            # Starting a thread for the one batch would take as long as a short sentence.
            return decoder.finish(prepared, [decoder.decode(prepared, prepared.batches[0])])
        found: list[Translation] = []
        with closing(self.chunks(sources, wishes)) as chunks:
            for chunk in chunks:
                found += chunk
                progress(len(found), len(sources))
        return found

    def stream(
        self,
        lines: Iterable[str],
        nbest: int = 1,
        alignment: bool = False,
        token_scores: bool = True,
        prefixes: Iterable[str] | None = None,
        forbidden: Sequence[str] = (),
        required: Iterable[Sequence[str]] | None = None,
    ) -> Generator[Translation]:
        """The same for any number of lines: some are read ahead, and never many are in memory. Closing it ends all."""
        wishes = Wishes(nbest, alignment, token_scores, tuple(forbidden), prefixes is not None, required is not None)
        return _one_by_one(self.chunks(_sources(lines, prefixes, required), wishes))

    def chunks(self, sources: Iterable[Source], wishes: Wishes, start: int = 0) -> Generator[list[Translation]]:
        """The translations of `CHUNK` sources at a time. `start` sources, whole chunks, were translated before.

        The output of a chunk depends on that chunk alone, however many processes there are: with more than one chunk,
        each is translated by one thread.
        """
        decoder = self.decoder(wishes)
        pieces = in_chunks(sources, CHUNK)
        if not isinstance(decoder.engine, TorchEngine):
            yield from translate_in_threads(decoder, pieces)
            return
        first = list(islice(pieces, 2))
        alone = len(first) < 2 and not start
        pieces, began = chain(first, pieces), time.monotonic()
        for piece in pieces:
            if self.workers > 1 and self.models.folders and time.monotonic() - began > PATIENCE:
                yield from translate_in_team(self._setup(wishes), self.workers, chain([piece], pieces))
                return
            with nullcontext() if alone or not self.models.folders else using_threads(1):
                found = decoder(piece)
            yield found

    def decoder(self, wishes: Wishes) -> TextDecoder:
        """What translates in this process, with the engine that can do what is wished."""
        if wishes not in self._decoders:
            engine = self.engines.choose(self._example(wishes))
            self._decoders[wishes] = TextDecoder(
                engine, self.models.tokenizers, self.search, wishes, self.batch_tokens, self.reading
            )
        return self._decoders[wishes]

    def _example(self, wishes: Wishes) -> DecodeRequest:
        """A request by which an engine can tell whether it can do what is wished."""
        some = [SPECIAL.unk]
        constraints = Constraints(
            prefix=some if wishes.prefixes or self.overlap else (),
            forbidden=[some] if wishes.forbidden else (),
            required=[some] if wishes.required else (),
        )
        return DecodeRequest(self.search, wishes.nbest, [constraints], wishes.alignment, wishes.token_scores)

    def _setup(self, wishes: Wishes) -> Setup:
        folders, seals = self.models.folders, self.models.seals
        return Setup(folders, seals, self.search, wishes, self.batch_tokens, self.reading, self.engines.draft)

    def _drafter(self) -> DrafterConfig | None:
        return choose_draft(self._draft, self.models, self.search)

    def _rescorer(self) -> Rescorer | None:
        return rescorer_for(self.search, self.models.loaded[0])

    def score(
        self, pairs: Sequence[tuple[str, str]], first: int = 1, progress: Progress = lambda done, total: None
    ) -> list[PairScore]:
        """log p(target | source) of each pair, in order; what goes wrong is told with a number from `first` on."""
        models = [saved.model for saved in self.models.loaded]
        for model in models:
            if isinstance(model, ParallelModel):
                raise UsageError(f"a model of the kind {model.kind} scores no given target; give an autoregressive one")
        with evaluating(models):
            return score_pairs(
                models, self.models.tokenizers, pairs, self.batch_tokens or BATCH_TOKENS, first, progress
            )


def _sources(
    texts: Iterable[str], prefixes: Iterable[str] | None, required: Iterable[Sequence[str]] | None
) -> Iterator[Source]:
    """Each text with what its output must hold."""
    beginnings = repeat("") if prefixes is None else iter(prefixes)
    words: Iterator[Sequence[str]] = repeat(()) if required is None else iter(required)
    number = 0
    for number, text in enumerate(texts, start=1):
        prefix, own = next(beginnings, None), next(words, None)
        if prefix is None or own is None:
            missing = "prefix" if prefix is None else "required words"
            raise UsageError(f"text {number:,} has no {missing}; give one entry for each text, empty for none")
        yield Source(text, prefix, tuple(own))
    for name, given, rest in (("prefixes", prefixes, beginnings), ("required words", required, words)):
        if given is not None and next(rest, None) is not None:
            raise UsageError(f"there are {number:,} texts but more {name}; give one entry for each text")


def _one_by_one(chunks: Generator[list[Translation]]) -> Generator[Translation]:
    with closing(chunks):
        for chunk in chunks:
            yield from chunk

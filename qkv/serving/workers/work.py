"""What a worker does with a batch: one function for each kind of work."""

import json
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from qkv.search.scoring import PairScore
from qkv.serving.workers.jobs import BatchJob, Embed, ModelSettings, Score, See, Translate
from qkv.translate.ask.vectors import EncodedText, TextVectors
from qkv.translate.output import Translation
from qkv.translate.settings import translation_config
from qkv.translate.texts import Unfinished
from qkv.translate.translator import Translator
from qkv.visual.see.record import as_record
from qkv.visual.see.sentence import see_sentence

MOST_TRANSLATORS = 32
"""Different search settings that are kept for each model."""

MOST_CHARACTERS = 16_384
"""Of texts that are encoded together, as many for each as the longest has."""


class LoadedModels:
    """Translators by model and search settings, loaded when they are first used.

    `most` models are kept, of at most `megabytes` by the size of their folders (None: any); the least recently used
    one is unloaded.
    """

    def __init__(self, most: int = 8, megabytes: float | None = None) -> None:
        self.most, self.megabytes = most, megabytes
        self._models: OrderedDict[tuple[Path, str], OrderedDict[tuple[str, ...], Translator]] = OrderedDict()
        self._sizes: dict[tuple[Path, str], float] = {}

    def __len__(self) -> int:
        return len(self._models)

    def translator(self, settings: ModelSettings) -> Translator:
        """The translator with these settings."""
        name, overrides = (settings.folder, settings.engine), settings.overrides
        if name not in self._models:
            # Only a model that could be loaded takes a place.
            found = translation_config(overrides, settings.folder).translator(
                [settings.folder], settings.engine, 1, device="cpu"
            )
            self._sizes[name] = sum(path.stat().st_size for path in settings.folder.iterdir() if path.is_file()) / 1e6
            self._models[name] = OrderedDict({overrides: found})
            self._unload()
        known = self._models[name]
        self._models.move_to_end(name)
        if overrides not in known:
            search = translation_config(overrides, settings.folder).search
            known[overrides] = next(iter(known.values())).with_search(search)
        known.move_to_end(overrides)
        while len(known) > MOST_TRANSLATORS:
            known.popitem(last=False)
        return known[overrides]

    def _unload(self) -> None:
        while len(self._models) > 1 and (
            len(self._models) > self.most or (self.megabytes is not None and sum(self._sizes.values()) > self.megabytes)
        ):
            oldest, _ = self._models.popitem(last=False)
            del self._sizes[oldest]


class Outside(NamedTuple):
    """What work is done with: the models, and the way to the server."""

    models: LoadedModels
    go_on: Callable[[], None]
    """Raises if nobody waits for the result any more."""
    tell: Callable[[int, Any], None]
    """Say what is written so far for an item."""


class EmbeddedText(NamedTuple):
    """The vector of a text; with the pooling `tokens` its tokens and the vector of each."""

    tokens: list[str] | None
    vectors: list[list[float]]


def _translate(work: Translate, items: list[Any], outside: Outside) -> list[Translation]:
    """All items as one batch."""
    decoder = outside.models.translator(work.model).compared(work.options, items)

    def tell(news: Unfinished) -> None:
        outside.tell(news.source, news)

    return decoder(items, lambda done: outside.go_on(), tell if work.options.watched else None)


def _score(work: Score, items: list[Any], outside: Outside) -> list[list[PairScore]]:
    """One request after the other: the numbers are those of `qkv score` with the same pairs."""
    translator = outside.models.translator(work.model)
    return [translator.score(pairs, progress=lambda done, total: outside.go_on()) for pairs in items]


def _embed(work: Embed, items: list[Any], outside: Outside) -> list[list[EmbeddedText]]:
    """One request after the other: the numbers are those of `qkv embed` with the same texts."""
    vectors = TextVectors(outside.models.translator(work.model).models.loaded[0])
    found = []
    for texts in items:
        own: list[EmbeddedText] = []
        for some in fitting_together(texts):
            outside.go_on()
            own += [_pooled(each, work) for each in vectors.encode(some)]
        found.append(own)
    return found


def fitting_together(texts: list[str]) -> Iterator[list[str]]:
    """Parts of the texts, in order, that are not too much for memory when all are as long as the longest."""
    start = longest = 0
    for end, text in enumerate(texts):
        longest = max(longest, len(text))
        if end > start and (end + 1 - start) * longest > MOST_CHARACTERS:
            yield texts[start:end]
            start, longest = end, len(text)
    yield texts[start:]


def _pooled(encoded: EncodedText, work: Embed) -> EmbeddedText:
    vectors: list[list[float]] = encoded.pooled(work.pooling, work.normalize).tolist()
    return EmbeddedText(encoded.tokens if work.pooling == "tokens" else None, vectors)


def _see(work: See, items: list[Any], outside: Outside) -> list[bytes]:
    """What `qkv see` writes into its page."""
    translator = outside.models.translator(work.model)
    found = []
    for text in items:
        outside.go_on()
        seen = see_sentence(translator.models.loaded[0], text, translator.search, work.name)
        found.append(json.dumps(as_record(seen), separators=(",", ":"), allow_nan=False).encode())
    return found


def done(job: BatchJob, outside: Outside) -> list[Any]:
    """The results of a job."""
    work, items = job.work, job.items
    if isinstance(work, Translate):
        return _translate(work, items, outside)
    if isinstance(work, Score):
        return _score(work, items, outside)
    if isinstance(work, Embed):
        return _embed(work, items, outside)
    assert isinstance(work, See)
    return _see(work, items, outside)


def engine_of(job: BatchJob, models: LoadedModels) -> str:
    """What runs the model of a job."""
    if isinstance(job.work, Translate):
        return models.translator(job.work.model).decoder(job.work.options).engine.name
    return "torch"

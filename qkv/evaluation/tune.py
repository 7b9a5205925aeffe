"""Tunes the search settings of a model by grid search on dev data."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from qkv.config import apply_overrides
from qkv.core.errors import UsageError
from qkv.core.progress import Counting
from qkv.evaluation.files import EvaluationSet, require_measurable
from qkv.evaluation.metrics.base import Metric
from qkv.models.decoders.base import DecoderConfig
from qkv.search.base import SearchConfig
from qkv.search.default import search_problem
from qkv.search.refinement.base import reader_of
from qkv.translate.output import plain
from qkv.translate.settings import translation_config
from qkv.translate.translator import Translator

GridPoint = dict[str, str]
"""Keys such as search.size, and values as they are written on the command line."""

BEAM_GRID: Sequence[Mapping[str, str]] = (
    # A beam of one has nothing to choose from, so that a length penalty has no effect.
    {"search.size": "1,"},
    {"search.size": "3,5,8", "search.length_penalty.alpha": "0,0.5,1,1.5"},
)
"""The default grid for autoregressive models, fastest first; other kinds bring their own."""


@dataclass(frozen=True)
class Trial:
    """One search and its scores."""

    settings: GridPoint
    """Its point of the grid; empty for a present search that is not in the grid."""
    scores: list[float]
    """In the order of the metrics; the first one decides."""
    outputs_cut: int
    seconds: float
    present: bool = False
    """Whether this is the model's present default search."""


@dataclass(frozen=True)
class Tuning:
    """All trials."""

    metrics: list[Metric]
    trials: list[Trial]
    fixed: GridPoint
    """What holds for all of them."""

    @property
    def best(self) -> Trial:
        """The best by the first metric; ties go to the first, so the present search stays unless another is better."""
        sign = 1 if self.metrics[0].higher_is_better else -1
        return max(self.trials, key=lambda trial: sign * trial.scores[0])

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        names = [metric.name for metric in self.metrics]
        return {
            "fixed": self.fixed,
            "trials": [
                {
                    "settings": trial.settings,
                    "scores": dict(zip(names, trial.scores, strict=True)),
                    "outputs_cut": trial.outputs_cut,
                    "seconds": trial.seconds,
                    "present": trial.present,
                    "best": trial is self.best,
                }
                for trial in self.trials
            ],
            "recommended": self.recommended,
        }

    @property
    def best_search(self) -> GridPoint:
        """The settings of the best one that belong to the search; others, such as batch_tokens, are not stored."""
        settings = self.fixed | self.best.settings
        return {key: value for key, value in settings.items() if key.startswith("search.")}

    @property
    def recommended(self) -> dict[str, Any] | None:
        """The same, as they are stored with a model; None if no trial is better than the present search."""
        if self.best.present:
            return None
        keys: dict[str, Any] = apply_overrides({}, overrides_of(self.best_search))["search"]
        return keys


def grid_of(given: Sequence[str], decoder: DecoderConfig) -> tuple[GridPoint, list[GridPoint]]:
    """Of arguments such as `search.size=2,4` or `search.stop=exact`: what is fixed, and the points of the grid.

    Keys with several values make the grid; without any, it is the decoder's default grid.
    """
    kind = "beam" if decoder.autoregressive else "refine"
    fixed, varied = {"search.kind": kind}, dict[str, str]()
    for argument in given:
        key, equals, values = (part.strip() for part in argument.partition("="))
        key = "search.kind" if key == "search" else key
        if not equals or not values:
            raise UsageError(f"{argument}: give a key and values with commas between them, such as search.size=2,4,8")
        if "," not in values or values[0] in "[{\"'":
            fixed[key] = values
        elif key.startswith("search."):
            varied[key] = values
        else:
            raise UsageError(f"{argument}: only keys of search are tuned; give one value, or leave it out")
    default = _default_grid(decoder) if fixed["search.kind"] == kind else ()
    parts = [varied] if varied else [_without(part, fixed) for part in default]
    points = [dict(zip(part, point, strict=True)) for part in parts for point in product(*map(_values, part.values()))]
    return fixed, _distinct(points) or [{}]


def _default_grid(decoder: DecoderConfig) -> Sequence[Mapping[str, str]]:
    return BEAM_GRID if decoder.autoregressive else reader_of(decoder.kind).grid


def _values(text: str) -> list[str]:
    return [value.strip() for value in text.split(",") if value.strip()]


def _without(part: Mapping[str, str], fixed: GridPoint) -> dict[str, str]:
    return {key: values for key, values in part.items() if key not in fixed}


def _distinct(points: Sequence[GridPoint]) -> list[GridPoint]:
    return [point for place, point in enumerate(points) if point and point not in points[:place]]


def spread_questions(test: EvaluationSet, most: int | None) -> EvaluationSet:
    """`most` of its questions, at even distances."""
    if most is None or len(test) <= most:
        return test
    places = [number * len(test) // most for number in range(most)]
    sources = None if test.sources is None else [test.sources[place] for place in places]
    lines = None if test.lines is None else list(range(most))
    return replace(test, references=[test.references[place] for place in places], sources=sources, lines=lines)


def tune(
    translator: Translator,
    test: EvaluationSet,
    metrics: Sequence[Metric],
    fixed: GridPoint,
    points: Sequence[GridPoint],
    progress: Counting = lambda done, total: None,
) -> Tuning:
    """Decode the sources of `test` with the present search of `translator`, then with the settings of each point, and
    score the outputs.
    """
    require_measurable(test, metrics)
    if test.sources is None:
        raise UsageError("a model needs something to translate: give the sources by --src FILE")
    candidates = _candidates(translator, fixed, points)
    # Decoding time is about proportional to the beam size, which gives the remaining time.
    total = sum(search.rows for _, search in candidates) * len(test)
    trials: list[Trial] = []
    before = 0
    for point, search in candidates:

        def tick(done: int, of: int, before: int = before, rows: int = search.rows) -> None:
            progress(before + done * rows, total)

        began = time.monotonic()
        found = translator.with_search(search).translate(test.sources, token_scores=False, progress=tick)
        seconds = time.monotonic() - began
        texts = [plain(number, translation).removesuffix("\n") for number, translation in enumerate(found, start=1)]
        scores = [metric.score(texts, test.references) for metric in metrics]
        trials.append(Trial(point, scores, sum(translation.out_cut for translation in found), seconds, not trials))
        before += search.rows * len(test)
        progress(before, total)
    return Tuning(list(metrics), trials, fixed)


def _candidates(
    translator: Translator, fixed: GridPoint, points: Sequence[GridPoint]
) -> list[tuple[GridPoint, SearchConfig]]:
    """The present search, then those of the points that differ from it."""
    decoder, present = translator.models.config.seq2seq.decoder, translator.search
    # A translator gives its search the model's own limits: with them the same settings are equal.
    grid = [(point, translator.with_search(_search(fixed | point, decoder)).search) for point in points]
    own = next((point for point, search in grid if search == present), {})
    return [(own, present), *((point, search) for point, search in grid if search != present)]


def _search(settings: GridPoint, decoder: DecoderConfig) -> SearchConfig:
    search = translation_config(overrides_of(settings)).search
    if problem := search_problem(search, decoder):
        raise UsageError(problem)
    return search


def overrides_of(settings: GridPoint) -> list[str]:
    return [f"{key}={value}" for key, value in settings.items()]

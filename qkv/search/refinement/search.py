"""The search of non-autoregressive models."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import Field, model_validator

from qkv.config import load_config
from qkv.core.errors import UsageError
from qkv.models.base import Parallel
from qkv.models.saved.folder import CONFIG, SavedConfig, SavedModel
from qkv.models.saved.locate import locate_model
from qkv.search.base import LengthLimits, Search, SearchConfig, SearchModel, SearchTask, searches
from qkv.search.hypothesis import Hypothesis
from qkv.search.refinement.base import Reader, ReaderConfig, Wanted, reader_for, reader_problem, readers
from qkv.search.refinement.canvas import Pass, WatchPass, refine
from qkv.search.refinement.rescoring import RescoredSearch, load_rescorer

AnyReader = Annotated[ReaderConfig, readers]


def _ignore(done: Pass) -> None:
    pass


@searches.register
class RefineConfig(SearchConfig):
    """All positions at once, in one pass or in several; for models whose decoder is not autoregressive."""

    parallel = True

    kind: Literal["refine"] = "refine"
    passes: int | None = Field(default=None, ge=1, le=10_000)
    """Passes over the canvas: each fills what is open, and all but the last open the least sure tokens again. null:
    one, or ten for the decoder mask_predict."""
    length_beam: int = Field(default=1, ge=1)
    """How many lengths are tried at once, the most probable ones; the output with the highest mean log p wins. For
    decoders that predict a length."""
    reader: AnyReader | None = None
    """What the model's kind of decoder has to set besides. Its keys may stand here by themselves: search.beam for
    search.reader.beam. null: the defaults of the kind."""
    rescore: Path | None = None
    """Folder of an autoregressive model with the same vocabulary, or of its run: it chooses among the outputs that
    length_beam or beam gives."""
    length_factor: float = Field(default=1.0, gt=0, le=100)
    """Outputs are so many times as long as the model would make them."""
    length: int | None = Field(default=None, ge=1)
    """Every output has exactly so many tokens, whatever other limits say."""

    @model_validator(mode="before")
    @classmethod
    def _reader_keys(cls, data: Any) -> Any:
        """Puts keys of a reader into `reader`."""
        if not isinstance(data, dict) or data.keys() <= cls.model_fields.keys():
            return data
        given = data.get("reader") or {}
        if not isinstance(given, str | dict | ReaderConfig):
            return data  # the field's own validator says what is wrong with it
        inner = {"kind": given} if isinstance(given, str) else dict(given)
        outer = {key: value for key, value in data.items() if key != "reader"}
        for key in [key for key in data if key not in cls.model_fields]:
            for owner in readers:
                name, kind = owner.renamed.get(key, key), owner.model_fields["kind"].default
                if name not in owner.model_fields:
                    continue
                if outer[key] == owner.model_fields[name].default:
                    # Configurations of earlier versions hold the keys of all kinds.
                    del outer[key]
                    break
                if inner.get("kind", kind) == kind:
                    inner |= {"kind": kind, key: outer.pop(key)}
                    break
        return outer | {"reader": inner or None}

    @model_validator(mode="after")
    def _fits_together(self) -> "RefineConfig":
        if self.length is not None and (self.length_factor != 1.0 or self.length_beam > 1):
            raise ValueError("length leaves nothing to choose; leave out length_factor and length_beam")
        if self.reader is not None and (problem := self.reader.problem(self.wanted, self.passes or 1)):
            raise ValueError(problem)
        if self.rescore is not None and self.outputs == 1:
            raise ValueError("rescore chooses among several outputs; add length_beam, or beam for ctc")
        if self.min_length or self.min_factor:
            raise ValueError("refine knows no shortest length; use length or length_factor")
        if self.no_repeat_ngram:
            raise ValueError("refine chooses all tokens at once, so no_repeat_ngram has no effect; leave it out")
        return self

    @property
    def exact_length(self) -> int | None:
        return self.length

    @property
    def outputs(self) -> int:
        """The most that a sentence can have."""
        return max(self.length_beam, 1 if self.reader is None else self.reader.outputs)

    @property
    def wanted(self) -> Wanted:
        """How long outputs shall be."""
        return Wanted(self.length_factor, self.length, self.length_beam)

    @property
    def hypotheses(self) -> int:
        return self.outputs

    @property
    def rows(self) -> int:
        return self.length_beam if self.rescore is None else self.outputs

    @property
    def src_limit(self) -> int | None:
        """The model that rescores must be able to read the source, too."""
        if self.rescore is None:
            return None
        return load_config(SavedConfig, locate_model(self.rescore) / CONFIG).model.limits.src

    @property
    def other_models(self) -> Sequence[Path]:
        return () if self.rescore is None else (self.rescore,)

    @property
    def missing(self) -> str | None:
        return (
            None
            if self.rescore is None
            else "rescore needs a Translator, which loads the model that it names; leave it out"
        )

    def build(self, saved: SavedModel | None = None, watch: WatchPass = _ignore) -> Search:
        """`watch` sees every pass."""
        search = RefineSearch(self.passes, self.reader, self.length_beam, self.length_factor, self.length, watch)
        if self.rescore is None:
            return search
        if saved is None:
            raise UsageError(self.missing)
        return RescoredSearch(search, load_rescorer(self.rescore, saved), self.outputs)


class RefineSearch:
    """All positions at once, in one pass or in several; see `RefineConfig` for what each argument does."""

    tgt_limit: int | None = None

    def __init__(
        self,
        passes: int | None = None,
        reader: ReaderConfig | None = None,
        length_beam: int = 1,
        length_factor: float = 1.0,
        length: int | None = None,
        watch: WatchPass = _ignore,
    ) -> None:
        self.passes, self.reader, self.watch = passes, reader, watch
        self.wanted = Wanted(length_factor, length, length_beam)

    def search(self, task: SearchTask, model: SearchModel) -> list[list[Hypothesis]]:
        filler = model.parallel()
        if task.attention:
            raise UsageError(f"a model of the kind {filler.kind} tells no alignment; leave it out")
        return self.fill(filler, task)

    def fill(self, model: Parallel, task: SearchTask) -> list[list[Hypothesis]]:
        """The same for one model that fills canvases."""
        if not task.limits:
            return []
        config = reader_for(self.reader, model.kind)
        self._refuse(model, task, config)
        reader, length = config.build(model, self.wanted), self.wanted.length
        limits = task.limits if length is None else [LengthLimits(length)] * len(task.limits)

        def after_pass(done: Pass) -> None:
            self.watch(done)
            task.after_step()

        with torch.inference_mode():
            source = model.read(task.src, task.src_keep)
            lengths = reader.lengths(source, limits)
            rows, passes = source.repeated(lengths.shape[1]), self.passes or config.passes
            asked = reader.top, reader.ask, reader.penalty
            filled = refine(model, rows, lengths.flatten(), passes, reader.never, after_pass, *asked)
        found = [
            self._best(reader, filled, sentence, own, most)
            for sentence, (own, most) in enumerate(zip(lengths.tolist(), limits, strict=True))
        ]
        return [own[: task.nbest] for own in found]

    def _best(
        self, reader: Reader, filled: Pass, sentence: int, lengths: list[int], limits: LengthLimits
    ) -> list[Hypothesis]:
        """What the canvases of one sentence say, best first; of equals the more probable length."""
        distinct: dict[tuple[int, ...], Hypothesis] = {}
        for number, length in enumerate(lengths):
            for hypothesis in reader.read(filled, sentence * len(lengths) + number, length, limits):
                # Two lengths beyond the limit are one.
                distinct.setdefault(tuple(hypothesis.tokens), replace(hypothesis, passes=filled.number))
        return sorted(distinct.values(), key=lambda one: -one.score)

    def _refuse(self, model: Parallel, task: SearchTask, reader: ReaderConfig) -> None:
        if problem := reader_problem(self.reader, model.kind):
            raise UsageError(problem)
        if self.wanted.length_beam > 1 and not reader.tries_lengths:
            raise UsageError(f"a model of the kind {model.kind} predicts no length; leave out search.length_beam")
        for name in ("prefix", "forbidden", "required"):
            if any(getattr(constraints, name) for constraints in task.constraints):
                raise UsageError(f"a non-autoregressive model ({model.kind}) cannot obey {name} words; leave them out")
        outputs = max(self.wanted.length_beam, reader.outputs)
        if task.nbest > outputs:
            raise UsageError(
                f"refine has {outputs} outputs, not {task.nbest}: raise search.length_beam, or search.beam for ctc"
            )

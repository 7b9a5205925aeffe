"""The search of non-autoregressive models."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import Field, model_validator

from qkv.core.errors import UsageError
from qkv.models.parallel.base import ParallelModel
from qkv.models.saved.folder import SavedModel
from qkv.search.base import LengthLimits, SearchConfig, SearchTask, searches
from qkv.search.hypothesis import Hypothesis
from qkv.search.refinement.base import Reader, ReaderConfig, Wanted, reader_of, readers
from qkv.search.refinement.canvas import Pass, WatchPass, refine
from qkv.search.refinement.rescoring import Rescorer, load_rescorer
from qkv.search.steps import StepFunction

AnyReader = Annotated[ReaderConfig, readers]


@searches.register
class RefineConfig(SearchConfig):
    """All positions at once, in one pass or in several; for models whose decoder is not autoregressive."""

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

    def reader_problem(self, kind: str) -> str | None:
        """Why a model of this kind cannot be decoded with `reader`; None: it can."""
        if self.reader is None or self.reader.kind == kind:
            return None
        fields = type(self.reader).model_fields.items()
        keys = [f"search.{key}" for key, field in fields if getattr(self.reader, key) != field.default]
        if not keys:
            return None
        return f"{', '.join(keys)} is for models of the kind {self.reader.kind}, not {kind}; leave it out"

    def reader_for(self, kind: str) -> ReaderConfig:
        """What reads the canvases of a model of this kind."""
        return reader_of(kind)() if self.reader is None or self.reader.kind != kind else self.reader

    @property
    def hypotheses(self) -> int:
        return self.outputs

    @property
    def rows(self) -> int:
        return self.length_beam if self.rescore is None else self.outputs

    def run(self, steps: StepFunction, task: SearchTask) -> list[list[Hypothesis]]:
        raise UsageError("the search kind refine is for non-autoregressive models: use beam, greedy, sample or mbr")

    def fill(
        self,
        model: ParallelModel,
        task: SearchTask,
        watch: WatchPass = lambda done: None,
        rescorer: Rescorer | None = None,
    ) -> list[list[Hypothesis]]:
        """What `run` is for the others; `watch` sees every pass. `rescorer` is that of `rescorer_for`."""
        if not task.limits:
            return []
        if self.rescore is not None and rescorer is None:
            raise UsageError("search.rescore needs a Translator, which loads the model that it names")
        config = self.reader_for(model.kind)
        self._refuse(model, task, config)
        reader = config.build(model, self.wanted)
        limits = task.limits if self.length is None else [LengthLimits(self.length)] * len(task.limits)

        def after_pass(done: Pass) -> None:
            watch(done)
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
        if rescorer is not None:
            found = rescorer.ranked(task, found)
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

    def _refuse(self, model: ParallelModel, task: SearchTask, reader: ReaderConfig) -> None:
        if problem := self.reader_problem(model.kind):
            raise UsageError(problem)
        if self.length_beam > 1 and not reader.tries_lengths:
            raise UsageError(f"a model of the kind {model.kind} predicts no length; leave out search.length_beam")
        for name in ("prefix", "forbidden", "required"):
            if any(getattr(constraints, name) for constraints in task.constraints):
                raise UsageError(f"a non-autoregressive model ({model.kind}) cannot obey {name} words; leave them out")
        if task.nbest > self.outputs:
            raise UsageError(
                f"refine has {self.outputs} outputs, not {task.nbest}: raise search.length_beam, or search.beam for ctc"
            )


def rescorer_for(search: SearchConfig, saved: SavedModel) -> Rescorer | None:
    """What chooses among the outputs of this model; None: nothing but itself."""
    path = search.rescore if isinstance(search, RefineConfig) else None
    return None if path is None else load_rescorer(path, saved)

"""The search of non-autoregressive models."""

from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Literal

import torch
from pydantic import Field, model_validator

from qkv.core.errors import UsageError
from qkv.models.parallel.base import ParallelModel
from qkv.models.saved.folder import SavedModel
from qkv.search.base import Limits, SearchConfig, SearchTask, searches
from qkv.search.hypothesis import Hypothesis
from qkv.search.refinement.base import Generator, PathName, Wanted
from qkv.search.refinement.canvas import Pass, Watch, refine
from qkv.search.refinement.generators import generator_for
from qkv.search.refinement.rescoring import Rescorer, load_rescorer
from qkv.search.steps import StepFunction


@searches.register
class RefineConfig(SearchConfig):
    """All positions at once, in one pass or in several; for models whose decoder is not autoregressive."""

    renamed: ClassVar = {"way": "path"}
    kind: Literal["refine"] = "refine"
    passes: int | None = Field(default=None, ge=1, le=10_000)
    """Passes over the canvas: each fills what is open, and all but the last open the least sure tokens again. null:
    one, or ten for the decoder mask_predict."""
    length_beam: int = Field(default=1, ge=1)
    """How many lengths are tried at once, the most probable ones; the output with the highest mean log p wins. For
    decoders that predict a length."""
    beam: int = Field(default=1, ge=1)
    """Size of the prefix beam search of the decoder ctc; 1: the best path collapses."""
    path: PathName | None = None
    """How the decoder dag goes from vertex to vertex: by the most probable link (greedy), to where link and token are
    most probable together (lookahead), or so that the mean log p of the whole path is highest (best). null:
    lookahead."""
    blank_penalty: float = Field(default=0.0, ge=-100, le=100)
    """Taken from the logit of the blank of the decoder ctc; more than 0: longer outputs, for a model that says too
    little."""
    rescore: Path | None = None
    """Folder of an autoregressive model with the same vocabulary, or of its run: it chooses among the outputs that
    length_beam or beam gives."""
    length_factor: float = Field(default=1.0, gt=0, le=100)
    """Outputs are so many times as long as the model would make them."""
    length: int | None = Field(default=None, ge=1)
    """Every output has exactly so many tokens, whatever other limits say."""

    @model_validator(mode="after")
    def _fits_together(self) -> "RefineConfig":
        if self.length is not None and (self.length_factor != 1.0 or self.length_beam > 1):
            raise ValueError("length leaves nothing to choose; leave out length_factor and length_beam")
        if self.beam > 1 and (self.length is not None or self.length_factor != 1.0 or (self.passes or 1) > 1):
            raise ValueError("the beam of ctc goes with one pass and its own length; leave out the other settings")
        if self.path is not None and self.length is not None:
            raise ValueError("a given length takes the best path of that length; leave out path")
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
        return max(self.length_beam, self.beam)

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
        watch: Watch = lambda done: None,
        rescorer: Rescorer | None = None,
    ) -> list[list[Hypothesis]]:
        """What `run` is for the others; `watch` sees every pass. `rescorer` is that of `rescorer_for`."""
        if not task.limits:
            return []
        if self.rescore is not None and rescorer is None:
            raise UsageError("search.rescore needs a Translator, which loads the model that it names")
        wanted = Wanted(
            self.length_factor, self.length, self.length_beam, self.beam, self.path or "lookahead", self.blank_penalty
        )
        generator = generator_for(model, wanted)
        self._refuse(model, task, generator)
        limits = task.limits if self.length is None else [Limits(self.length)] * len(task.limits)

        def after_pass(done: Pass) -> None:
            watch(done)
            task.after_step()

        with torch.inference_mode():
            source = model.read(task.src, task.src_keep)
            lengths = generator.lengths(source, limits)
            rows, passes = source.repeated(lengths.shape[1]), self.passes or generator.passes
            asked = generator.top, generator.ask, generator.penalty
            filled = refine(model, rows, lengths.flatten(), passes, generator.never, after_pass, *asked)
        found = [
            self._best(generator, filled, sentence, own, most)
            for sentence, (own, most) in enumerate(zip(lengths.tolist(), limits, strict=True))
        ]
        if rescorer is not None:
            found = rescorer.ranked(task, found)
        return [own[: task.nbest] for own in found]

    def _best(
        self, generator: Generator, filled: Pass, sentence: int, lengths: list[int], limits: Limits
    ) -> list[Hypothesis]:
        """What the canvases of one sentence say, best first; of equals the more probable length."""
        distinct: dict[tuple[int, ...], Hypothesis] = {}
        for number, length in enumerate(lengths):
            for hypothesis in generator.read(filled, sentence * len(lengths) + number, length, limits):
                # Two lengths beyond the limit are one.
                distinct.setdefault(tuple(hypothesis.tokens), replace(hypothesis, passes=filled.number))
        return sorted(distinct.values(), key=lambda one: -one.score)

    def _refuse(self, model: ParallelModel, task: SearchTask, generator: Generator) -> None:
        if self.length_beam > 1 and not generator.tries_lengths:
            raise UsageError(f"a model of the kind {model.kind} predicts no length; leave out search.length_beam")
        if self.beam > 1 and not generator.keeps_prefixes:
            raise UsageError(f"search.beam is for models of the kind ctc, not {model.kind}; leave it out")
        if self.blank_penalty and not generator.has_blanks:
            raise UsageError(f"search.blank_penalty is for models of the kind ctc, not {model.kind}; leave it out")
        if self.path is not None and not generator.has_paths:
            raise UsageError(f"search.path is for models of the kind dag, not {model.kind}; leave it out")
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

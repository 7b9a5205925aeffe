"""Compares another engine or a quantised export with its model in PyTorch, in float32, before it is used."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import torch

from qkv.core.errors import QkvError
from qkv.data.batch import collate
from qkv.data.batching import by_length
from qkv.engines.base import DecodeRequest, Engine
from qkv.engines.torch_engine import TorchEngine, evaluating
from qkv.models.saved.folder import SavedModel
from qkv.objectives.build import build_objective
from qkv.objectives.teacher_forcing import ObjectiveConfig
from qkv.search.base import Constraints
from qkv.search.default import quick_search
from qkv.search.hypothesis import Hypothesis
from qkv.text.special import NAMES, SPECIAL

COUNT = 8
TOKENS = 400
"""The maximum number of sources and of source tokens that are decoded twice: one small batch."""
TOLERANCE = 0.01
"""The part of a mean score by which it may be worse. Weak ENDs that stop a search too early cost a tenth and more."""


@dataclass(frozen=True)
class MeanScores:
    """Of the best outputs for the same sources."""

    theirs: float
    ours: float

    @property
    def worse(self) -> bool:
        return self.theirs < self.ours - TOLERANCE * abs(self.ours)

    def __str__(self) -> str:
        return f"a mean score of {self.theirs:.4f}, and torch {self.ours:.4f}"


def mean_scores(theirs: Engine, ours: Engine, sources: Sequence[list[int]], request: DecodeRequest) -> MeanScores:
    """Decode a few of `sources` with both engines."""
    few = some_of(sources)
    plain = replace(request, constraints=[Constraints()] * len(few), attention=False, token_scores=False)
    found = ([own[0].score for own in engine.decode(few, plain)] if few else [0.0] for engine in (theirs, ours))
    return MeanScores(*map(fmean, found))


def some_of(sources: Sequence[list[int]]) -> list[list[int]]:
    """Of all lengths, from the shortest to the longest, within `COUNT` and `TOKENS`; empty ones are left out."""
    ranked = sorted((ids for ids in sources if ids), key=len)
    count = min(COUNT, len(ranked))
    few: list[list[int]] = []
    for place in range(count):
        ids = ranked[place * (len(ranked) - 1) // max(count - 1, 1)]
        if sum(map(len, few)) + len(ids) <= TOKENS:
            few.append(ids)
    return few


SOURCES = 100
"""Number of sources that are compared: a few seconds of work."""
USUAL_LENGTH, LONGEST = 10, 60
"""Tokens of a random source in the middle, where the model does not know better, and at most."""
NOISE = 0.1
"""Nats a token. Rounding to int8 costs a trained model 0.000 to 0.02 on random sources; noise costs 0.4 and more."""

Tick = Callable[[int, int], None]


@dataclass(frozen=True)
class Agreement:
    """How much the outputs of a quantised model differ from those in float32."""

    sources: int
    same: int
    """Number of identical outputs."""
    cost: float
    """The loss in log p per token, in nats, by the model in float32."""

    def __str__(self) -> str:
        return f"{self.same} of {self.sources} outputs are those of float32, at a cost of {self.cost:.4f} nats a token"

    def refuse_noise(self, quantization: str) -> None:
        """Raise QkvError if the outputs are too much worse."""
        if not self.cost < NOISE:
            raise QkvError(
                f"in {quantization} the model says something else ({self}; {NOISE} is the limit): nothing was written; "
                "leave out --quantization, try another one, or give --sample FILE with sources as the model reads them"
            )


def sample_sources(saved: SavedModel, texts: Sequence[str] | None, limit: int | None) -> list[list[int]]:
    """The ids of the texts, or of random sentences over the vocabulary, `limit` of them at most; END is the last."""
    tokenizer, source = saved.tokenizers.src, random.Random(0)
    if texts is None:
        middle = saved.config.median_src or USUAL_LENGTH
        lengths = [source.randint(1, min(2 * middle, LONGEST)) for _ in range(SOURCES)]
        ids = [[source.randrange(len(NAMES), len(tokenizer)) for _ in range(length)] for length in lengths]
    else:
        ids = [own for own in tokenizer.encode_batch(list(texts)) if own]
    return [[*(own if limit is None else own[: limit - 1]), SPECIAL.eos] for own in ids]


def agreement(
    saved: SavedModel, engine: Engine, sources: Sequence[list[int]], tick: Tick = lambda done, total: None
) -> Agreement:
    """Decode `sources` greedily with `engine` and with PyTorch in float32, and score both outputs by the latter."""
    search = quick_search(saved.model, passes=1)
    plain = TorchEngine([saved.model])
    batches = by_length([len(ids) for ids in sources], 1, engine.batch_tokens)
    same, done, ours, theirs = 0, 0, _Judged(saved), _Judged(saved)
    with evaluating([saved.model]), torch.no_grad():
        for rows in batches:
            given = [sources[row] for row in rows]
            request = DecodeRequest(search, 1, [Constraints()] * len(rows), token_scores=False)
            wanted, found = ([own[0] for own in each.decode(given, request)] for each in (plain, engine))
            same += sum(a.tokens == b.tokens for a, b in zip(wanted, found, strict=True))
            ours.add(given, wanted)
            theirs.add(given, found)
            done += len(rows)
            tick(done, len(sources))
    return Agreement(len(sources), same, max(theirs.per_token - ours.per_token, 0.0))


class _Judged:
    """The summed negative log-likelihood of outputs by the model."""

    def __init__(self, saved: SavedModel) -> None:
        self.model = saved.model
        self.says_end = saved.config.seq2seq.decoder.autoregressive
        size = len(saved.tokenizers.tgt)
        self.objective = build_objective(
            ObjectiveConfig(), saved.config.seq2seq.decoder, size, SPECIAL, lambda: torch.ones(size)
        )
        self.nll = self.weight = 0.0

    def add(self, sources: Sequence[list[int]], outputs: Sequence[Hypothesis]) -> None:
        said = [output.tokens for output in outputs]
        batch = collate([ids[:-1] for ids in sources], said, SPECIAL, SPECIAL, range(len(sources)))
        for row, output in enumerate(outputs):
            if self.says_end and not output.ended:
                # It was cut at its limit, so END is not part of the output.
                batch.tgt_weight[row, len(output.tokens)] = 0
        report = self.objective.validation_loss(self.model, batch.to(self.model.device))
        self.nll += float(report.nll)
        self.weight += float(report.weight)

    @property
    def per_token(self) -> float:
        return self.nll / max(self.weight, 1.0)

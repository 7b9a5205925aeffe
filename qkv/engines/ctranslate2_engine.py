"""The fast engine: a model that `export_ctranslate2` wrote, run by CTranslate2.

It supports what gives the same outputs as our own search, and rejects the rest.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from qkv.config import load_config
from qkv.core.devices import CPU
from qkv.core.errors import CorruptFolder, QkvError, UsageError
from qkv.core.files import verify_folder
from qkv.core.reading import read_record
from qkv.engines.base import DecodeRequest
from qkv.export.ctranslate2 import ROWS, WHAT
from qkv.export.int8 import choose_backend
from qkv.kernels.threads import cores
from qkv.models.saved.folder import CONFIG, SavedConfig
from qkv.search.base import LengthLimits, SearchConfig, SteppedSearch
from qkv.search.beam import BeamConfig
from qkv.search.greedy import GreedyConfig
from qkv.search.hypothesis import Hypothesis, not_a_number
from qkv.search.length_penalty import NoLengthPenalty, Power
from qkv.text import SPECIAL
from qkv.text.special import NAMES

if TYPE_CHECKING:
    from ctranslate2 import TranslationResult, Translator


LONG = 3.0
"""The first patience of `stop: heuristic`: room for the best hypotheses and `size` worse ones behind them."""
FEW = 3
"""So many of the best hypotheses must have ended before `size` others, even if fewer are wanted."""


def first_patience(search: SearchConfig, max_length: int) -> float:
    if isinstance(search, BeamConfig) and not counts(search):
        return min(LONG, max_length) if search.stop == "heuristic" else max_length
    return 1.0


def last_patience(search: SearchConfig, max_length: int) -> float:
    """Of a sentence for which the first one was too little."""
    return max_length if isinstance(search, BeamConfig) and not counts(search) else 1.0


def counts(beam: BeamConfig) -> bool:
    """Whether counting to `size` is our own rule, too; without penalties CTranslate2 stops as we do."""
    # A beam of size 1 is greedy search for both.
    return beam.stop == "enough" or beam.unpenalised or (beam.size == 1 and beam.stop == "heuristic")


def approximates(search: SearchConfig) -> bool:
    """Whether it may stop earlier than our own search."""
    return isinstance(search, BeamConfig) and search.stop == "heuristic" and not counts(search)


def never_stops(patience: float, max_length: int) -> bool:
    """Before the last step fewer hypotheses have ended than such a patience asks for."""
    return patience >= max_length


def settled(lengths: Sequence[int], nbest: int, size: int) -> bool:
    """Whether `size` hypotheses ended after the best few. `lengths` are those of all that ended, best first.

    Where a good output is still to come, those that end before it become better and better with their length, so that
    the best ones are among the last.
    """
    last = max(lengths[: max(nbest, min(FEW, size))])
    return sum(length > last for length in lengths) >= size


END = NAMES[SPECIAL.eos]
PLAIN = {"float16": "float32", "bfloat16": "float32", "int8_float16": "int8_float32", "int8_bfloat16": "int8_float32"}
"""How weights are computed with on a machine that has no half precision."""


def ctranslate2_search_obstacles(search: SearchConfig, nbest: int = 1) -> list[str]:
    """Reasons why CTranslate2 cannot run a search, or would run it differently."""
    if type(search) not in (GreedyConfig, BeamConfig):
        return [f"it has no search kind {getattr(search, 'kind', type(search).__name__)}"]
    if isinstance(search, SteppedSearch) and search.wants_length:
        return ["it takes no length or length_factor"]
    if not isinstance(search, BeamConfig):
        return [] if nbest == 1 else [f"greedy search gives one output, not {nbest}"]
    penalty, unpenalised = search.length_penalty, search.unpenalised
    reasons = {
        f"a beam of size {search.size} cannot give {nbest} hypotheses": nbest > search.size,
        f"it has no length penalty {getattr(penalty, 'kind', '?')}": type(penalty) not in (Power, NoLengthPenalty),
        "its beam of size 1 is greedy search": search.size == 1 and search.stop == "exact" and not unpenalised,
        f"without length penalty it may stop before the best {nbest} are found": unpenalised and nbest > 1,
        "it has no groups of beams": search.groups > 1,
        "it treats source tokens without any attention otherwise in coverage_penalty": search.coverage_penalty != 0,
        "in its beam a rule changes the scores of what it allows, so it takes no min_length, min_factor or "
        "no_repeat_ngram there": bool(search.min_length or search.min_factor or search.no_repeat_ngram),
    }
    return [reason for reason, holds in reasons.items() if holds]


def ctranslate2_request_obstacles(request: DecodeRequest) -> list[str]:
    """The same for a whole request; needs no model."""
    reasons = ctranslate2_search_obstacles(request.search, request.nbest) + request.obstacles
    if any(each.prefix or each.forbidden or each.required for each in request.constraints):
        reasons.append("it takes no prefix, forbidden or required words")
    return reasons


class CTranslate2Engine:
    """Made from the folder of an export. `threads` calls of `decode` run at once, one thread each (None: the cores)."""

    name = "ctranslate2"
    batch_tokens = 2048

    def __init__(self, folder: Path, threads: int | None = None, device: torch.device = CPU) -> None:
        manifest = verify_folder(folder)
        if manifest.get("what") != WHAT:
            raise CorruptFolder(f"{folder}: was not exported for CTranslate2; write one with qkv export")
        config = load_config(SavedConfig, folder / CONFIG)
        limit = config.model.limits.src
        self.src_limit: int | None = limit or ROWS
        self.tgt_limit = limit or ROWS
        self.parallel = threads or cores()
        shared = folder / "shared_vocabulary.json"
        src, tgt = (
            read_record(shared if shared.exists() else folder / f"{side}_vocabulary.json", list[str], "a vocabulary")
            for side in ("source", "target")
        )
        self._src_names: list[str] = src
        self._tgt_names: list[str] = tgt
        self._tgt_ids = {name: i for i, name in enumerate(tgt)}
        self.translator = _open(folder, manifest.get("quantization"), self.parallel, device)

    def decode(self, sources: Sequence[list[int]], request: DecodeRequest) -> list[list[Hypothesis]]:
        if reasons := ctranslate2_request_obstacles(request):
            raise UsageError(f"CTranslate2 cannot decode this way: {'; '.join(reasons)}; use the engine torch")
        limits = [request.search.limits(len(ids), self.tgt_limit) for ids in sources]
        names = self._src_names
        words = [[names[i] for i in ids] for ids in sources]
        results = self._search(words, limits, request)
        found = [self._hypotheses(results[row], request) if row in results else [UNBEGUN] for row in range(len(words))]
        if request.token_scores or _has_rules(request.search):
            found = self._with_token_scores(words, found, request.search)
        return found

    def _search(
        self, words: list[list[str]], limits: Sequence[LengthLimits], request: DecodeRequest
    ) -> dict[int, "TranslationResult"]:
        """The results of CTranslate2 for each sentence, except those with a maximum length of 0."""
        search = request.search
        results: dict[int, TranslationResult] = {}
        again: dict[LengthLimits, list[int]] = defaultdict(list)
        for call, rows in _calls(limits, search).items():
            patience = first_patience(search, call.max_length)
            found = self._translate([words[row] for row in rows], call, request, patience)
            for row, result in zip(rows, found, strict=True):
                if not _done(result, limits[row], call, patience, request):
                    again[limits[row]].append(row)
                results[row] = result
            request.after_step()
        for own, rows in again.items():
            patience = last_patience(search, own.max_length)
            results |= zip(rows, self._translate([words[row] for row in rows], own, request, patience), strict=True)
            request.after_step()
        return results

    def _translate(
        self, words: list[list[str]], limits: LengthLimits, request: DecodeRequest, patience: float
    ) -> list["TranslationResult"]:
        search = request.search
        beam = search if isinstance(search, BeamConfig) else None
        # All that ended, where it matters when they did.
        every = beam and not beam.unpenalised and not never_stops(patience, limits.max_length)
        found: list[TranslationResult] = self.translator.translate_batch(
            words,
            # In a beam over several sentences the first token gets the attention of another sentence.
            max_batch_size=1 if beam and request.attention else 0,
            beam_size=beam.size if beam else 1,
            patience=patience,
            num_hypotheses=round(beam.size * patience) if beam and every else request.nbest,
            length_penalty=_alpha(search),
            no_repeat_ngram_size=search.no_repeat_ngram,
            max_input_length=0,
            max_decoding_length=limits.max_length,
            min_decoding_length=limits.min_length,
            return_scores=True,
            return_end_token=True,
            return_attention=request.attention,
        )
        return found

    def _hypotheses(self, result: "TranslationResult", request: DecodeRequest) -> list[Hypothesis]:
        ids = self._tgt_ids
        found = []
        for place, (names, score) in enumerate(zip(result.hypotheses, result.scores, strict=True)):
            if place == request.nbest:
                break
            if score != score:
                raise not_a_number()
            ended = bool(names) and names[-1] == END
            tokens = [ids[name] for name in (names[:-1] if ended else names)]
            attention = result.attention[place][: len(tokens)] if request.attention else None
            found.append(Hypothesis(tokens, [], score, ended, attention))
        return found

    def _with_token_scores(
        self, words: list[list[str]], found: list[list[Hypothesis]], search: SearchConfig
    ) -> list[list[Hypothesis]]:
        """The same with the model's own token log-probabilities, from a second pass."""
        names = self._tgt_names
        pairs = [
            (source, [names[i] for i in each.tokens]) for source, own in zip(words, found, strict=True) for each in own
        ]
        scored = iter(self.translator.score_batch([s for s, _ in pairs], [t for _, t in pairs], max_input_length=0))
        return [[_scored(each, next(scored).log_probs, search) for each in own] for own in found]


UNBEGUN = Hypothesis([], [], 0.0, False)
"""The output of a sentence that may have no token at all."""


def _scored(hypothesis: Hypothesis, log_probs: list[float], search: SearchConfig) -> Hypothesis:
    scores = log_probs if hypothesis.ended else log_probs[:-1]
    score = sum(scores) if _has_rules(search) else hypothesis.score
    return Hypothesis(hypothesis.tokens, scores, score, hypothesis.ended, hypothesis.attention)


def _has_rules(search: SearchConfig) -> bool:
    """Whether CTranslate2 scores a token by its part of what is allowed, not of all; only greedy search has these."""
    return bool(search.min_length or search.min_factor or search.no_repeat_ngram)


def _alpha(search: SearchConfig) -> float:
    """The exponent of the length that log p is divided by; 0 for greedy search, whose score is log p."""
    penalty = search.length_penalty if isinstance(search, BeamConfig) else None
    return penalty.alpha if isinstance(penalty, Power) else 0.0


def _calls(limits: Sequence[LengthLimits], search: SearchConfig) -> Mapping[LengthLimits, list[int]]:
    """Which sentences are decoded together, and within which limits.

    CTranslate2 has one limit for a call. A sentence that stops before its own limit is not changed by a longer one,
    and one that does not is done again. A beam without length penalty does not tell when it stopped, and an exact one
    continues to its limit.
    """
    calls: dict[LengthLimits, list[int]] = defaultdict(list)
    own_calls = isinstance(search, BeamConfig) and (search.unpenalised or search.stop == "exact")
    longest: dict[int, int] = defaultdict(int)
    for own in limits:
        longest[own.min_length] = max(longest[own.min_length], own.max_length)
    for row, own in enumerate(limits):
        if own.max_length:
            calls[own if own_calls else LengthLimits(longest[own.min_length], own.min_length)].append(row)
    return calls


def _done(
    result: "TranslationResult", own: LengthLimits, call: LengthLimits, patience: float, request: DecodeRequest
) -> bool:
    """Whether a search within the limits `call` found what our own search finds within its `own` limits."""
    search, lengths = request.search, [len(each) for each in result.hypotheses]
    # Fewer hypotheses had ended before the last step than are here, so one is as long as the search was.
    if never_stops(patience, call.max_length) or max(lengths) >= own.max_length:
        return own == call
    return not isinstance(search, BeamConfig) or counts(search) or settled(lengths, request.nbest, search.size)


def _open(folder: Path, quantization: str | None, threads: int, device: torch.device) -> "Translator":
    choose_backend()
    try:
        import ctranslate2
    except ImportError as error:
        raise UsageError("the engine ctranslate2 is not installed; install it with: pip install 'qkv[fast]'") from error
    compute = quantization or "float32"
    if compute not in ctranslate2.get_supported_compute_types(device.type):
        compute = PLAIN.get(compute, "float32")
    try:
        return ctranslate2.Translator(
            str(folder),
            device=device.type,
            device_index=device.index or 0,
            compute_type=compute,
            inter_threads=threads,
            intra_threads=1,
        )
    except (RuntimeError, ValueError) as error:
        raise QkvError(f"{folder}: CTranslate2 cannot load it ({error}); export the model again") from error

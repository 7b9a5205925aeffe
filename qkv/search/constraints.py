"""Constraints on the next token, applied to the log-probabilities of each step.

A token that is not allowed gets -inf, and the others keep their log-probabilities: the score is still the model's
log p(Y | X).
"""

from collections.abc import Iterator, Sequence
from itertools import zip_longest

import torch
from torch import Tensor

from qkv.core.errors import UsageError
from qkv.search.base import Constraints, LengthLimits, SearchTask
from qkv.search.hypothesis import Candidate, Partial
from qkv.text.special import SpecialIds


class Required:
    """Sequences that must occur, in any order; they may overlap."""

    def __init__(self, sequences: Sequence[Sequence[int]]) -> None:
        unique = list(dict.fromkeys(tuple(sequence) for sequence in sequences))
        inside = [any(contains(other, sequence) for other in unique if other is not sequence) for sequence in unique]
        self._sequences = [list(each) for each, drop in zip(unique, inside, strict=True) if not drop]
        self.total = sum(map(len, self._sequences))

    def missing(self, tokens: Sequence[int]) -> int:
        """An upper bound on the tokens still needed: all unmet sequences, less what the best one already has."""
        unmet = self._unmet(tokens)
        return sum(map(len, unmet)) - max((_begun(tokens, sequence) for sequence in unmet), default=0)

    def next_tokens(self, tokens: Sequence[int]) -> list[int]:
        """The tokens that continue an unmet sequence."""
        return sorted({sequence[_begun(tokens, sequence)] for sequence in self._unmet(tokens)})

    def only(self, tokens: list[int], left: int) -> list[int] | None:
        """The allowed tokens if `left` more are possible: None if any, else those after which the rest fits.

        If there are none, the limit is too short: any token is allowed, and the output will be cut.
        """
        unmet = self._unmet(tokens)
        if sum(map(len, unmet)) < left or not unmet:
            return None
        useful = sorted({token for sequence in unmet for token in sequence})
        return [token for token in useful if self.missing([*tokens, token]) < left] or None

    def _unmet(self, tokens: Sequence[int]) -> list[list[int]]:
        return [sequence for sequence in self._sequences if not contains(tokens, sequence)]


def dealt(
    required: Required, live: Sequence[Partial], best: list[Candidate], ranked: Tensor, log_probs: Tensor
) -> list[Candidate]:
    """The best candidates and those that continue a sequence, allocated by banks; ranked, log_probs [K, V]."""
    written = [partial.tokens() for partial in live]
    found = {(candidate.beam, candidate.token): candidate for candidate in best}
    for beam, tokens in enumerate(written):
        for token in required.next_tokens(tokens):
            score = live[beam].total + float(ranked[beam, token])
            if score > -float("inf"):
                found.setdefault((beam, token), Candidate(score, beam, token, float(log_probs[beam, token])))
    banks: dict[int, list[Candidate]] = {}
    for candidate in sorted(found.values(), key=lambda each: (-each.score, each.beam, each.token)):
        missing = required.missing([*written[candidate.beam], candidate.token])
        banks.setdefault(missing, []).append(candidate)
    turns = zip_longest(*(banks[missing] for missing in sorted(banks)))
    return [candidate for turn in turns for candidate in turn if candidate is not None]


def ends_with(tokens: Sequence[int], sequence: Sequence[int]) -> bool:
    return list(tokens[max(len(tokens) - len(sequence), 0) :]) == list(sequence)


def contains(tokens: Sequence[int], sequence: Sequence[int]) -> bool:
    """Whether `sequence` occurs in `tokens`."""
    width, wanted = len(sequence), list(sequence)
    return any(list(tokens[start : start + width]) == wanted for start in range(len(tokens) - width + 1))


def _begun(tokens: Sequence[int], sequence: Sequence[int]) -> int:
    """The length of the longest prefix of `sequence` that ends `tokens`."""
    return next(size for size in range(len(sequence) - 1, -1, -1) if ends_with(tokens, sequence[:size]))


Row = tuple[int, Partial | None]
"""The sentence of a row and its output so far; None: the row is idle."""


class Rules:
    """Minimum length, window of lengths, forced prefix, forbidden and required sequences, no repeated n-grams.

    The prefix has priority; then a required sequence that must begin now; then all that forbids.
    """

    def __init__(self, task: SearchTask, no_repeat_ngram: int) -> None:
        constraints = task.constraints or [Constraints()] * len(task.limits)
        self._ngram = no_repeat_ngram
        self._sentences = [
            _SentenceRules(limits, given, task.special) for limits, given in zip(task.limits, constraints, strict=True)
        ]
        self.active = bool(no_repeat_ngram) or any(sentence.active for sentence in self._sentences)
        self._only_length = not no_repeat_ngram and not any(sentence.reads_tokens for sentence in self._sentences)
        self._limits, self._end = task.limits, task.special.eos

    def required(self, sentence: int) -> "Required | None":
        """The required sequences of a sentence, if it has any."""
        return self._sentences[sentence].required

    def apply(self, log_probs: Tensor, rows: Sequence[Row]) -> Tensor:
        """[R, V] -> [R, V] with -inf on every token that is not allowed."""
        if self._only_length:
            return self._without_end(log_probs, rows)
        forced_rows, forced, banned_rows, banned = [], [], [], []
        for row, (sentence, partial) in enumerate(rows):
            if partial is None:
                continue
            tokens = partial.tokens()
            only = self._sentences[sentence].only(tokens)
            if only is not None:
                forced_rows.append(row)
                forced.append(only)
                continue
            not_now = [*self._sentences[sentence].not_now(tokens), *repeating(tokens, self._ngram)]
            banned_rows += [row] * len(not_now)
            banned += not_now
        masked = log_probs.clone()
        masked[banned_rows, banned] = -torch.inf
        for row, only in zip(forced_rows, forced, strict=True):
            masked[row] = -torch.inf
            masked[row, only] = log_probs[row, only]
        return masked

    def _without_end(self, log_probs: Tensor, rows: Sequence[Row]) -> Tensor:
        """Only a minimum length, the most common constraint: END is not allowed in shorter rows."""
        short = [
            row
            for row, (sentence, partial) in enumerate(rows)
            if partial is not None and partial.length < self._limits[sentence].min_length
        ]
        if not short:
            return log_probs
        masked = log_probs.clone()
        if len(short) == len(rows):
            masked.select(1, self._end).fill_(-torch.inf)
        else:
            masked[short, self._end] = -torch.inf
        return masked


class _SentenceRules:
    """The rules of one sentence."""

    def __init__(self, limits: LengthLimits, constraints: Constraints, special: SpecialIds) -> None:
        _check(constraints, special)
        # END takes a step too: a window ends at least one step before the maximum length.
        self._end_at = min(constraints.length[1], limits.max_length - 1) if constraints.length else None
        self._most = limits.max_length if self._end_at is None else self._end_at
        self._fewest = max(limits.min_length, constraints.length[0] if constraints.length else 0)
        self._prefix = list(constraints.prefix)
        self._forbidden = [list(sequence) for sequence in constraints.forbidden]
        self.required = Required(constraints.required) if constraints.required else None
        self._end = special.eos
        self.reads_tokens = bool(self._prefix or self._forbidden or self.required or constraints.length)
        self.active = bool(limits.min_length) or self.reads_tokens

    def only(self, tokens: list[int]) -> list[int] | None:
        """The tokens that are allowed; None: any."""
        if len(tokens) < len(self._prefix):
            return [self._prefix[len(tokens)]]
        if len(tokens) == self._end_at:
            return [self._end]
        if self.required is None:
            return None
        return self.required.only(tokens, self._most - len(tokens))

    def not_now(self, tokens: list[int]) -> Iterator[int]:
        """Tokens that are not allowed."""
        if len(tokens) < self._fewest or (self.required and self.required.missing(tokens)):
            yield self._end
        for sequence in self._forbidden:
            if ends_with(tokens, sequence[:-1]):
                yield sequence[-1]


def repeating(tokens: Sequence[int], n: int) -> Iterator[int]:
    """Tokens that would repeat an n-gram of `tokens`; none for n = 0."""
    if n:
        last = list(tokens[len(tokens) - n + 1 :]) if n > 1 else []
        for start in range(len(tokens) - n + 1):
            if list(tokens[start : start + n - 1]) == last:
                yield tokens[start + n - 1]


def _check(constraints: Constraints, special: SpecialIds) -> None:
    for sequence in (*constraints.forbidden, *constraints.required):
        if not sequence:
            raise UsageError("a forbidden or required sequence has no tokens: leave it out")
    for sequence in (constraints.prefix, *constraints.forbidden, *constraints.required):
        if special.control.intersection(sequence):
            raise UsageError(f"a prefix, forbidden or required sequence holds a special token: {list(sequence)}")
    for required in constraints.required:
        for forbidden in constraints.forbidden:
            if contains(required, forbidden):
                raise UsageError(f"the required {list(required)} holds the forbidden {list(forbidden)}: drop one")

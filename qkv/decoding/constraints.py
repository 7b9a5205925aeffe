"""Rules of what may follow: a search applies them to the log-probabilities of each step.

A token that may not follow gets -inf, and the others keep their log-probabilities: a score stays log p(Y | X) of the
model, whatever the rules were.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from qkv.decoding.hypothesis import Partial
from qkv.decoding.required import Required, contains, ends_with
from qkv.decoding.search import Constraints, Limits, SearchTask
from qkv.errors import UsageError
from qkv.text.special import SpecialIds

Row = tuple[int, Partial | None]
"""The sentence of a row and what it has written; None: the row is idle."""


class Rules:
    """Shortest length, window of lengths, forced prefix, forbidden and required sequences, no repeated n-grams.

    The prefix comes first; a required sequence that must begin now comes before all that forbids.
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
        """[R, V] -> [R, V] with -inf on every token that may not follow."""
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
        """The shortest length alone, the commonest rule: END may not follow in the rows that are shorter."""
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

    def __init__(self, limits: Limits, constraints: Constraints, special: SpecialIds) -> None:
        _check(constraints, special)
        # END takes a step, too: a window ends at the latest one step before the longest length.
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
        """The tokens of which one must follow; None: any may."""
        if len(tokens) < len(self._prefix):
            return [self._prefix[len(tokens)]]
        if len(tokens) == self._end_at:
            return [self._end]
        if self.required is None:
            return None
        return self.required.only(tokens, self._most - len(tokens))

    def not_now(self, tokens: list[int]) -> Iterator[int]:
        """Tokens that may not follow."""
        if len(tokens) < self._fewest or (self.required and self.required.missing(tokens)):
            yield self._end
        for sequence in self._forbidden:
            if ends_with(tokens, sequence[:-1]):
                yield sequence[-1]


def repeating(tokens: Sequence[int], n: int) -> Iterator[int]:
    """Tokens that would end an n-gram which `tokens` already has; none for n = 0."""
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

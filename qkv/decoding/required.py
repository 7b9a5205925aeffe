"""Sequences that an output must hold: beam search with a bank for each amount of them (Post and Vilar 2018).

END is not said before all sequences are there. Beside the best candidates, those that carry a sequence on are looked
at too, and the places of the beam are dealt out in turn to the candidates that hold most of the required tokens, to
those that hold one less, and so on: so the beam has always hypotheses that are ahead and can never forget a sequence.
When the space that is left is only just enough, nothing else may follow.
"""

from collections.abc import Sequence
from itertools import zip_longest

from torch import Tensor

from qkv.decoding.hypothesis import Partial
from qkv.decoding.ranking import Candidate


class Required:
    """Sequences that must occur, one after another or overlapping."""

    def __init__(self, sequences: Sequence[Sequence[int]]) -> None:
        unique = list(dict.fromkeys(tuple(sequence) for sequence in sequences))
        inside = [any(contains(other, sequence) for other in unique if other is not sequence) for sequence in unique]
        self._sequences = [list(each) for each, drop in zip(unique, inside, strict=True) if not drop]
        self.total = sum(map(len, self._sequences))

    def missing(self, tokens: Sequence[int]) -> int:
        """How many more tokens surely suffice: those of all unmet sequences, but for what the best one already has."""
        unmet = self._unmet(tokens)
        return sum(map(len, unmet)) - max((_begun(tokens, sequence) for sequence in unmet), default=0)

    def next_tokens(self, tokens: Sequence[int]) -> list[int]:
        """The tokens that carry an unmet sequence on."""
        return sorted({sequence[_begun(tokens, sequence)] for sequence in self._unmet(tokens)})

    def only(self, tokens: list[int], left: int) -> list[int] | None:
        """Which tokens may follow if `left` more are possible: None if any, else those after which the rest fits.

        If no token is such a one, the model cannot write so much: any may follow, and the output will be cut.
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
    """The best candidates and those that carry on a sequence, dealt out by banks; ranked, log_probs [K, V]."""
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
    """Whether `sequence` stands somewhere in `tokens`."""
    width, wanted = len(sequence), list(sequence)
    return any(list(tokens[start : start + width]) == wanted for start in range(len(tokens) - width + 1))


def _begun(tokens: Sequence[int], sequence: Sequence[int]) -> int:
    """How much of an unmet `sequence` the end of `tokens` holds."""
    return next(size for size in range(len(sequence) - 1, -1, -1) if ends_with(tokens, sequence[:size]))

"""What comes out for a text."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Translation:
    """The best output for a text, and the others that were asked for.

    Examples:
        >>> from qkv import Translator
        >>> found = Translator("runs/reverse").translate("abc", nbest=2)
        >>> found.src_tokens, len(found.alternatives), found.score >= found.alternatives[0].score
        (['a', 'b', 'c', '</s>'], 1, True)
    """

    text: str
    score: float
    """What the search ranks by; higher is better."""
    tokens: list[str]
    token_scores: list[float]
    """The log-probability of each token, and of END if the output ended by itself; empty if nobody asked for them."""
    src_tokens: list[str]
    """The source as the model read it, END included; what an alignment refers to."""
    unknown: list[str] = field(default_factory=list)
    """Words of the source, or characters of them, that are not in the model's vocabulary: it reads them as <unk>."""
    src_cut: bool = False
    """Whether the source was longer than the model can read, or than was allowed, and lost its end."""
    out_cut: bool = False
    """Whether the output was stopped before it ended by itself, at its longest length."""
    parts: int = 1
    """In how many parts the source was translated, because it was too long for the model. The score is then the sum of
    theirs, and the tokens of the source and the scores of tokens hold the END of each."""
    split_at: str | None = None
    """Where it was split: sentence, clause, word or character; None: nowhere."""
    alternatives: list["Translation"] = field(default_factory=list)
    """The rest of the n-best, best first."""
    alignment: list[list[float]] | None = None
    """`alignment[token][src_token]`: how much each token looked at each source token; only when asked for."""
    passes: int | None = None
    """How many passes of the decoder it took, where one may give several tokens: with drafts, or all at once."""

    @property
    def truncated(self) -> bool:
        """Whether anything was cut."""
        return self.src_cut or self.out_cut

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        found: dict[str, Any] = {
            "text": self.text,
            "score": self.score,
            "tokens": self.tokens,
            "token_scores": self.token_scores,
            "truncated": self.truncated,
            "parts": self.parts,
            "split_at": self.split_at,
            "src_tokens": self.src_tokens,
            "unknown": self.unknown,
            "alternatives": [other.as_dict() for other in self.alternatives],
        }
        more = {"alignment": self.alignment, "passes": self.passes}
        return found | {name: value for name, value in more.items() if value is not None}

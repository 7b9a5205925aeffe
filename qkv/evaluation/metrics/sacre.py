"""BLEU, chrF and TER: computed by sacreBLEU, with its signatures."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from qkv.core.errors import UsageError
from qkv.evaluation.metrics.base import Counts, Metric, References, reference_counts

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric as Scorer
    from sacrebleu.metrics.base import Score


def moses_languages() -> list[str]:
    """The codes of the languages for which Moses has rules of its own."""
    from sacremoses.corpus import NonbreakingPrefixes

    return sorted(set(NonbreakingPrefixes().available_langs.values()))


def moses_tokenizer(language: str) -> Callable[[str], str]:
    """A function from text to its tokens with a space between them, in the order of the corpus' own script.

    Hyphens are not split. The German side of test_2016_flickr has 12,103 tokens this way, as in the published log
    (and one less when it is lower-cased last).
    """
    from sacremoses import MosesPunctNormalizer, MosesTokenizer

    known = moses_languages()
    if language not in known:
        raise UsageError(f"Moses has no rules for the language {language!r}; give one of {', '.join(known)}")
    # The papers ran the Perl script, whose treatment of a few quotation marks differs.
    normalizer = MosesPunctNormalizer(language, perl_parity=True)
    tokenizer = MosesTokenizer(language)

    def tokenize(text: str) -> str:
        # Escaping would write & as &amp; in outputs and references alike: no score depends on it.
        return str(tokenizer.tokenize(normalizer.normalize(text.lower()), return_str=True, escape=False))

    return tokenize


class SacreMetric(Metric):
    """A metric of sacreBLEU.

    Its rows of counts are what sacreBLEU itself adds up and resamples. The methods that give them have an
    underscore, but every metric of sacreBLEU must have them; a test compares with its public calls.
    """

    @cached_property
    @abstractmethod
    def scorer(self) -> "Scorer":
        """Made when it is first needed: importing sacreBLEU takes a while."""

    def counts(self, outputs: Sequence[str], references: References) -> Counts:
        rows = self.scorer._extract_corpus_statistics(list(outputs), _as_streams(references))
        return np.asarray(rows, dtype=np.float64)

    def from_total(self, total: NDArray[np.float64]) -> float:
        return float(self._score(total).score)

    def detail(self, total: NDArray[np.float64]) -> str:
        return self._score(total)._verbose

    def signature(self, references: References) -> str:
        found = self.scorer._SIGNATURE_TYPE({**vars(self.scorer), "num_refs": reference_counts(references)})
        return found.format()

    def _score(self, total: NDArray[np.float64]) -> "Score":
        return cast("Score", self.scorer._compute_score_from_stats(total.tolist()))


def _as_streams(references: References) -> list[list[str]]:
    """sacreBLEU wants one list for each reference number, None where an output has fewer (its types hide that)."""
    most = max(len(answers) for answers in references)
    streams = [[answers[i] if i < len(answers) else None for answers in references] for i in range(most)]
    return cast(list[list[str]], streams)


class Bleu(SacreMetric):
    """Matching n-grams of words (up to 4), with a penalty for short output."""

    name: ClassVar[str] = "bleu"
    title: ClassVar[str] = "BLEU"
    about: ClassVar[str] = "matching word n-grams (sacreBLEU, 13a, mixed case)"
    higher_is_better: ClassVar[bool] = True

    @cached_property
    def scorer(self) -> "Scorer":
        from sacrebleu.metrics.bleu import BLEU

        # `force` only keeps sacreBLEU from writing about tokenised text on its own; `remarks` does that.
        return BLEU(force=True)

    def words(self, text: str) -> list[str]:
        """The words that it compares."""
        return self.scorer._preprocess_segment(text).split()


class Chrf(SacreMetric):
    """Matching n-grams of characters (up to 6)."""

    name: ClassVar[str] = "chrf"
    title: ClassVar[str] = "chrF"
    about: ClassVar[str] = "matching character n-grams (sacreBLEU)"
    higher_is_better: ClassVar[bool] = True

    @cached_property
    def scorer(self) -> "Scorer":
        from sacrebleu.metrics.chrf import CHRF

        return CHRF()


class Ter(SacreMetric):
    """Edits of words, where moving a phrase is one edit."""

    name: ClassVar[str] = "ter"
    title: ClassVar[str] = "TER"
    about: ClassVar[str] = "word edits and shifts, per 100 words of the reference (sacreBLEU)"
    higher_is_better: ClassVar[bool] = False

    @cached_property
    def scorer(self) -> "Scorer":
        from sacrebleu.metrics.ter import TER

        return TER()

    def detail(self, total: NDArray[np.float64]) -> str:
        return f"edits: {total[0]:,.0f}, words: {total[1]:,.0f}"


class TokenizedBleu(Bleu):
    """BLEU as papers on Multi30k report it: of tokens between spaces, unsmoothed, as multi-bleu.perl counts it."""

    name: ClassVar[str] = "bleu_tok_lc"
    title: ClassVar[str] = "BLEU tok lc"
    about: ClassVar[str] = "BLEU of lower-cased text in Moses' tokens, as in papers on Multi30k; needs the language"
    needs_language: ClassVar[bool] = True

    def __init__(self, language: str | None = None) -> None:
        self.language = language

    def for_language(self, language: str | None) -> Self:
        found = type(self)(language)
        found.tokenize("")  # an unknown language is refused here, before anything is decoded
        return found

    @cached_property
    def tokenize(self) -> Callable[[str], str]:
        if self.language is None:
            raise UsageError(
                f"{self.name} goes by the rules of a language: name that of the references, as in --lang de"
            )
        return moses_tokenizer(self.language)

    def counts(self, outputs: Sequence[str], references: References) -> Counts:
        tokenized = [[self.tokenize(answer) for answer in answers] for answers in references]
        return super().counts([self.tokenize(output) for output in outputs], tokenized)

    def signature(self, references: References) -> str:
        from sacrebleu import __version__ as sacrebleu
        from sacremoses import __version__ as sacremoses

        return (
            f"nrefs:{reference_counts(references)}|case:lc|norm:moses-{self.language}|tok:moses-{self.language}|"
            f"hyphens:kept|order:case,norm,tok|eff:no|smooth:none|version:{sacrebleu}|sacremoses:{sacremoses}"
        )

    @cached_property
    def scorer(self) -> "Scorer":
        from sacrebleu.metrics.bleu import BLEU

        return BLEU(tokenize="none", smooth_method="none", force=True)

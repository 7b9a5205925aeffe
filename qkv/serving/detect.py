"""Language detection, offline, by py3langid."""

from functools import lru_cache
from typing import Any, NamedTuple

from qkv.serving.languages import full_code


class Detected(NamedTuple):
    """A language and how sure its detection is, from 0 to 100."""

    confidence: float
    language: str


def detect_language(text: str, among: tuple[str, ...] = ()) -> Detected:
    """The language of a text; of `among`, if there are any and all of them can be detected."""
    if len(among) == 1:
        return Detected(100.0, among[0])
    if not any(letter.isalpha() for letter in text):
        return Detected(0.0, among[0] if among else "en")
    language, probability = _identifier(among).classify(text)
    return Detected(round(100 * float(probability), 1), full_code(str(language)))


@lru_cache(maxsize=8)
def _identifier(among: tuple[str, ...]) -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    if among and set(among) <= set(identifier.labels):
        identifier.set_languages(among)
    return identifier

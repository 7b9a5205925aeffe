"""Language detection, offline, by py3langid."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, NamedTuple

from qkv.serving.languages import full_code


class Detected(NamedTuple):
    """A language and how sure its detection is, from 0 to 100."""

    confidence: float
    language: str


_THREAD = ThreadPoolExecutor(1, "detect")
"""One thread, so that requests that come together do not load the same model twice."""


async def detect_in_thread(text: str, among: tuple[str, ...] = ()) -> Detected:
    """What `detect_language` finds, in a thread: loading the model takes a while, and other requests shall not wait."""
    return await asyncio.get_running_loop().run_in_executor(_THREAD, detect_language, text, among)


def detect_language(text: str, among: tuple[str, ...] = ()) -> Detected:
    """The language of a text; of `among`, if there are any, those of them that can be detected."""
    if len(among) == 1:
        return Detected(100.0, among[0])
    if not any(letter.isalpha() for letter in text):
        return Detected(0.0, among[0] if among else "en")
    identifier, codes = identifier_of(among)
    if not codes:
        return Detected(0.0, among[0])
    label, probability = identifier.classify(text)
    return Detected(round(100 * float(probability), 1), codes[str(label)])


@lru_cache(maxsize=8)
def identifier_of(among: tuple[str, ...]) -> tuple[Any, dict[str, str]]:
    """What detects these languages or, without any, all that it knows; and the code of each of its labels."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    codes = {str(label): full_code(str(label)) for label in identifier.labels}
    if among:
        # Both ways to write Chinese have one label, and a language may be served in the variant of a country.
        own = {
            label: [code for code in among if code == full or code.split("-")[0] == label.split("-")[0]]
            for label, full in codes.items()
        }
        codes = {label: found[0] for label, found in own.items() if found}
        if codes:
            identifier.set_languages(sorted(codes))
    return identifier, codes

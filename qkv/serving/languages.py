"""Language codes and their names."""

import re

NAMES = {
    "ar": "Arabic", "az": "Azerbaijani", "bg": "Bulgarian", "bn": "Bengali", "ca": "Catalan", "cs": "Czech",
    "da": "Danish", "de": "German", "el": "Greek", "en": "English", "eo": "Esperanto", "es": "Spanish",
    "et": "Estonian", "eu": "Basque", "fa": "Persian", "fi": "Finnish", "fr": "French", "ga": "Irish",
    "gl": "Galician", "he": "Hebrew", "hi": "Hindi", "hu": "Hungarian", "id": "Indonesian", "it": "Italian",
    "ja": "Japanese", "ko": "Korean", "lt": "Lithuanian", "lv": "Latvian", "ms": "Malay", "nb": "Norwegian",
    "nl": "Dutch", "pl": "Polish", "pt": "Portuguese", "pt-BR": "Portuguese (Brazil)", "ro": "Romanian",
    "ru": "Russian", "sk": "Slovak", "sl": "Slovenian", "sq": "Albanian", "sr": "Serbian", "sv": "Swedish",
    "th": "Thai", "tl": "Tagalog", "tr": "Turkish", "uk": "Ukrainian", "ur": "Urdu", "vi": "Vietnamese",
    "zh-Hans": "Chinese", "zh-Hant": "Chinese (traditional)", "en-x-arpabet": "English sounds (ARPAbet)",
}  # fmt: skip
SHORT = {"zh": "zh-Hans", "zt": "zh-Hant", "pb": "pt-BR"}
"""Other codes of the same languages."""
CODE = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*")
PAIR = re.compile(r"([a-z]{2,3})-([a-z]{2,3})")


def language_name(code: str) -> str:
    """The English name of a language, or its code if there is none here."""
    return NAMES.get(code, code)


def full_code(code: str) -> str:
    """The code as it is written in answers: `ZH` is `zh-Hans`."""
    lower = code.lower()
    known = {name.lower(): name for name in NAMES} | SHORT
    return known.get(lower, lower)


def pair_of_name(name: str) -> tuple[str, str] | None:
    """The languages of a model that is called es-en; None: its name does not say."""
    match = PAIR.fullmatch(name)
    return (match[1], match[2]) if match else None

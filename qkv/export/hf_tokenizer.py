"""Export of tokenizers to tokenizer.json, where the format gives the same ids."""

import json
import re
import sys
from pathlib import Path
from typing import Any

from tokenizers import Regex, decoders, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Library
from tokenizers.models import BPE, WordLevel

from qkv.text import SPECIAL, Tokenizer, TokenizerPair
from qkv.text.special import NAMES

TARGET = "target_tokenizer"
"""The subfolder of the target's tokenizer where it is not the source's."""


def write_tokenizers(pair: TokenizerPair, folder: Path) -> bool:
    """Write tokenizer.json of the source into `folder`, and that of another target below it.

    Returns whether it was possible: the format cannot express all pieces and normal forms exactly.
    """
    src, tgt = library_tokenizer(pair.src), library_tokenizer(pair.tgt)
    if src is None or tgt is None:
        return False
    _write(src, folder)
    if not pair.shared:
        (folder / TARGET).mkdir()
        _write(tgt, folder / TARGET)
    return True


def _write(library: Library, folder: Path) -> None:
    library.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **{f"{role}_token": NAMES[getattr(SPECIAL, role)] for role in ("pad", "unk", "bos", "eos", "mask")},
        # A typed "</s>" is text.
        "split_special_tokens": True,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 1024,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


def library_tokenizer(tokenizer: Tokenizer) -> Library | None:
    """The same tokenizer in the `tokenizers` library, END appended; None: it cannot be the same."""
    about = tokenizer.definition()
    build = BUILDERS.get(about["kind"])
    # Lower-casing differs between Python and the library for some letters.
    if build is None or about["normalize"]["lowercase"]:
        return None
    library = build(about)
    library.add_special_tokens(list(NAMES))
    end = NAMES[SPECIAL.eos]
    library.post_processor = processors.TemplateProcessing(
        single=f"$A {end}", pair=f"$A {end} $B {end}", special_tokens=[(end, SPECIAL.eos)]
    )
    return library


def _byte_pair(about: dict[str, Any]) -> Library:
    ids = {piece: i for i, piece in enumerate(about["pieces"])}
    library = Library(BPE(ids, [tuple(pair) for pair in about["merges"]]))
    library.normalizer = normalizers.Sequence([*_normalizers(about), normalizers.Prepend(" ")])
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    return library


def _words(about: dict[str, Any]) -> Library:
    library = Library(WordLevel({piece: i for i, piece in enumerate(about["pieces"])}, unk_token=NAMES[SPECIAL.unk]))
    # White space is always collapsed here.
    collapsed = {**about, "normalize": {**about["normalize"], "whitespace": "collapse"}}
    library.normalizer = normalizers.Sequence(_normalizers(collapsed))
    library.pre_tokenizer = pre_tokenizers.Split(" ", "removed")
    return library


def _characters(about: dict[str, Any]) -> Library:
    library = Library(WordLevel({piece: i for i, piece in enumerate(about["pieces"])}, unk_token=NAMES[SPECIAL.unk]))
    library.normalizer = normalizers.Sequence(_normalizers(about))
    library.pre_tokenizer = pre_tokenizers.Split(Regex(r"(?m:.)"), "isolated")
    library.decoder = decoders.Fuse()
    return library


BUILDERS = {"bpe": _byte_pair, "whitespace": _words, "char": _characters}


def _normalizers(about: dict[str, Any]) -> list[Any]:
    settings = about["normalize"]
    forms: dict[str, list[Any]] = {"none": [], "NFC": [normalizers.NFC()], "NFKC": [normalizers.NFKC()]}
    found = forms[settings["unicode"]]
    if settings["whitespace"] == "collapse":
        spaces = "".join(chr(code) for code in range(sys.maxunicode) if chr(code).isspace())
        class_of_spaces = f"[{re.escape(spaces)}]+"
        found += [
            normalizers.Replace(Regex(class_of_spaces), " "),
            normalizers.Replace(Regex("^ "), ""),
            normalizers.Replace(Regex(" $"), ""),
        ]
    return found

"""`kind: huggingface`: the tokenizer of an imported model, with its ids in the order that every vocabulary has here."""

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from tokenizers import Tokenizer as Library

from qkv.core.errors import CorruptFolder, UsageError
from qkv.core.reading import read_record
from qkv.text.normalize import NormalizeConfig
from qkv.text.special import CONTROL, NAMES, SPECIAL, UNKNOWN_MARK, SpecialIds
from qkv.text.tokenizer import TokenizerConfig, read_file, tokenizers

MODEL, ROLES = "tokenizer.json", "roles.json"
ROLE_NAMES = ("pad", "unk", "bos", "eos", "mask")


@tokenizers.register
class HuggingFaceConfig(TokenizerConfig):
    """A tokenizer.json of Hugging Face; it comes with an imported model and is not trained here."""

    trainable: ClassVar[bool] = False

    kind: Literal["huggingface"] = "huggingface"

    def train(self, texts: Iterable[str]) -> "HuggingFaceTokenizer":
        raise UsageError(
            "text: the kind huggingface comes with a model of qkv import; give start_from, or another kind"
        )

    def load(self, folder: Path) -> "HuggingFaceTokenizer":
        roles = read_record(folder / ROLES, dict[str, int | None], "the special ids of a tokenizer")
        return HuggingFaceTokenizer(read_file(folder / MODEL).decode(), roles)


class HuggingFaceTokenizer:
    """The first five ids are our special ones, whatever they are called there; the others follow in their order.

    Args:
        content: The content of a tokenizer.json.
        roles: Which of its ids is `pad`, `unk`, `bos`, `eos` and `mask`; None: it has none.
    """

    special: SpecialIds = SPECIAL

    def __init__(self, content: str, roles: Mapping[str, int | None]) -> None:
        try:
            self._library = Library.from_str(content)
        # The library raises a bare Exception for a bad file.
        except Exception as error:
            raise CorruptFolder(f"{MODEL}: is not a tokenizer of Hugging Face ({error}); use another copy") from error
        self._library.no_padding()
        self._library.no_truncation()
        self._library.encode_special_tokens = True
        self._roles = {name: roles.get(name) for name in ROLE_NAMES}
        taken = [self._roles[name] for name in ROLE_NAMES]
        size = self._library.get_vocab_size()
        self.theirs: list[int | None] = [*taken, *(i for i in range(size) if i not in taken)]
        """Our id -> theirs; None: they have no such token."""
        self._ours = {their: our for our, their in reversed(list(enumerate(self.theirs))) if their is not None}

    def __len__(self) -> int:
        return len(self.theirs)

    def normalize(self, text: str) -> str:
        return self.decode(self.encode(text))

    def encode(self, text: str) -> list[int]:
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        found = self._library.encode_batch(list(texts), add_special_tokens=False)
        return [[self._ours[i] for i in each.ids] for each in found]

    def sample(self, text: str, random: random.Random) -> list[int]:
        return self.encode(text)

    def unknowns(self, text: str) -> list[str]:
        return [UNKNOWN_MARK for i in self.encode(text) if i == SPECIAL.unk]

    def decode(self, ids: Sequence[int], unknowns: Sequence[str] = ()) -> str:
        known = [their for i in ids if i not in CONTROL and (their := self.theirs[i]) is not None]
        text: str = self._library.decode(known, skip_special_tokens=False)
        return text

    def tokens(self, ids: Sequence[int]) -> list[str]:
        return [NAMES[i] if i < len(NAMES) else self._piece(self.theirs[i]) for i in ids]

    def _piece(self, their: int | None) -> str:
        piece = "" if their is None else self._library.id_to_token(their) or ""
        return piece.replace(" ", "▁").replace("Ġ", "▁")

    def save(self, folder: Path) -> None:
        (folder / MODEL).write_text(self._library.to_str(), encoding="utf-8")
        (folder / ROLES).write_text(json.dumps(self._roles) + "\n", encoding="utf-8")

    def definition(self) -> dict[str, Any]:
        return {"kind": "huggingface", "normalize": NormalizeConfig().model_dump(), "roles": self._roles}

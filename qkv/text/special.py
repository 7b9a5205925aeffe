"""The five special ids; the same, and first, in every vocabulary."""

from dataclasses import dataclass

NAMES = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")
UNKNOWN_MARK = "⁇"
"""What `decode` writes for an unknown piece."""


@dataclass(frozen=True)
class SpecialIds:
    """`NAMES[i]` is the name of id `i`; ordinary pieces follow from `len(NAMES)` on."""

    pad: int = 0
    unk: int = 1
    bos: int = 2
    eos: int = 3
    mask: int = 4

    @property
    def control(self) -> frozenset[int]:
        """Ids that no text can produce and that `decode` skips; unk is not one of them."""
        return frozenset({self.pad, self.bos, self.eos, self.mask})


SPECIAL = SpecialIds()
CONTROL = SPECIAL.control
NEVER_OUTPUT = (SPECIAL.pad, SPECIAL.bos, SPECIAL.mask)
"""Ids that a model never outputs: probabilities are normalised without them."""

"""Outputs and references as a Python program gives them."""

from collections.abc import Iterable, Sequence

from qkv.core.errors import ArgumentError, UsageError
from qkv.text.given import checked_texts, require_list


def require_answers(outputs: Iterable[str], references: Iterable[Sequence[str]]) -> None:
    """Outputs are texts, and each has a list of one reference or more; raises ArgumentError or UsageError."""
    texts = list(checked_texts("outputs", outputs))
    require_list("references", references, "lists of references")
    answers = list(references)
    for number, own in enumerate(answers):
        if isinstance(own, str):
            raise ArgumentError(
                f"references[{number}]: must be a list of references, not one text; write [[answer], ...]"
            )
        if not list(checked_texts(f"references[{number}]", own)):
            raise UsageError(f"references[{number}]: has no reference; give one or more")
    if not texts:
        raise UsageError("outputs: there are none; give at least one")
    if len(texts) != len(answers):
        raise UsageError(f"there are {len(texts):,} outputs, but references for {len(answers):,}; give one for each")

"""What looks wrong with outputs, said before a score is believed."""

from collections.abc import Sequence

SUSPICIOUS = 0.2
"""The share of outputs from which on a habit is no accident."""


def remarks_on(outputs: Sequence[str]) -> list[str]:
    """Sentences for people; none if all is well."""
    empty = sum(not output.strip() for output in outputs)
    alone = sum(output.endswith(" .") for output in outputs)
    pieces = sum("@@ " in output or "▁" in output for output in outputs)
    total = f"of {len(outputs):,} outputs"
    found = []
    if empty:
        found.append(f"{empty:,} {total} are empty")
    if alone > SUSPICIOUS * len(outputs):
        found.append(f"{alone:,} {total} end in a full stop that stands alone; join tokens to text before scoring")
    if pieces > SUSPICIOUS * len(outputs):
        found.append(f"{pieces:,} {total} hold marks of subwords (@@ or ▁); join the pieces to words before scoring")
    return found

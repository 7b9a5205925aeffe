"""Which attention head aligns words: options of the verbs that write alignments."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from qkv.engines.alignments import AlignmentHead

Layer = Annotated[int | None, typer.Option(min=1, help="Align by this decoder layer, counted from 1.")]
Head = Annotated[int | None, typer.Option(min=0, help="Align by this head of --layer, counted from 1; 0: their mean.")]
Shifted = Annotated[
    bool, typer.Option("--shifted", help="Align by the step that reads a target word, not the one that predicts it.")
]


def given_head(layer: int | None, head: int | None, shifted: bool, otherwise: str) -> "AlignmentHead | None":
    """The head that is named; None: none is. `otherwise` says what happens then."""
    from qkv.core.errors import UsageError
    from qkv.engines.alignments import AlignmentHead

    if (layer is None) != (head is None) or (shifted and layer is None):
        raise UsageError(f"give --layer and --head together, or neither: {otherwise}")
    return None if layer is None or head is None else AlignmentHead(layer, head, shifted)

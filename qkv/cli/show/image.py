"""qkv show image"""

from pathlib import Path
from typing import Annotated

import typer


def image(
    model: Annotated[Path, typer.Argument(help="The folder of a vision model or of its run.")],
    file: Annotated[Path, typer.Argument(help="An image file; it is scaled to the size that the model reads.")],
    out: Annotated[Path, typer.Option(help="The SVG file to write.")],
) -> None:
    """Draw where a vision model looks in an image: a heat map for each head of each layer."""
    from qkv.core.files import write_atomic
    from qkv.core.outputs import require_writable
    from qkv.evaluation.classifying.classify import ImageClassifier
    from qkv.visual.image_attention import draw_image_attention

    require_writable({"--out": out}, [file])
    classifier = ImageClassifier(model)
    found = next(classifier.classified([file]))
    title = f"{file.name}: {found.label} ({found.probabilities[found.label]:.2f})"
    write_atomic(out, draw_image_attention(classifier.model, classifier.read(file), title))

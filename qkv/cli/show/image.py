"""qkv show image"""

from pathlib import Path
from typing import Annotated

import typer


def image(
    model: Annotated[Path, typer.Argument(help="The folder of a vision model or of its run.")],
    file: Annotated[Path, typer.Argument(help="An image file; it is scaled to the size that the model reads.")],
    out: Annotated[Path, typer.Option(help="The file to write: .svg, .png or .pdf.")],
) -> None:
    """Draw where a vision model looks in an image: a heat map for each head of each layer."""
    from qkv.core.outputs import require_writable
    from qkv.evaluation.classifying.classify import ImageClassifier
    from qkv.visual.figures.images import image_attention_figure
    from qkv.visual.image_attention import attention_to_patches

    require_writable({"--out": out}, [file])
    classifier = ImageClassifier(model)
    found = next(classifier.classified([file]))
    title = f"{file.name}: {found.label} ({found.probabilities[found.label]:.2f})"
    pixels = classifier.read(file)
    image_attention_figure(pixels, attention_to_patches(classifier.model, pixels), title).write(out)

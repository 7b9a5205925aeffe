"""qkv classify"""

from pathlib import Path
from typing import Annotated

import typer


def classify(
    model: Annotated[Path, typer.Argument(help="The folder of a model or of a run.")],
    images: Annotated[
        list[Path], typer.Option(help="An image file, a folder of image files, or an .npz archive; repeatable.")
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="Give a JSON object for each image, with the probability of each class.")
    ] = False,
) -> None:
    """Name the class of each image: the file, a tab, the class, a tab, and its probability."""
    import json

    from qkv.cli.shared.streams import require_stdout
    from qkv.evaluation.classifying.classify import ImageClassifier

    require_stdout()
    for found in ImageClassifier(model).classified(images):
        if as_json:
            print(json.dumps(found._asdict(), ensure_ascii=False))
        else:
            print(f"{found.image}\t{found.label}\t{found.probabilities[found.label]:.4f}")

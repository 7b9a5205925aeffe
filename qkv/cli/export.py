"""qkv export"""

from pathlib import Path
from typing import Annotated

import typer


def export(
    model: Annotated[Path, typer.Argument(help="The folder of a model or of a run.")],
    to: Annotated[str, typer.Option(help="ctranslate2 or onnx (decode faster), or huggingface (transformers).")],
    out: Annotated[Path, typer.Option(help="The folder to write; an earlier export there is replaced.")],
    quantization: Annotated[
        str | None, typer.Option(help="How ctranslate2 or onnx store weights, for example int8; float32 without it.")
    ] = None,
) -> None:
    """Write a model in the format of another program."""
    from qkv.interop.export import export_model
    from qkv.progress import default_reporter

    reporter = default_reporter()
    try:
        reporter.counting("Exporting")(0, None)
        size = export_model(model, to, out, quantization)
    finally:
        reporter.close()
    typer.echo(f"{out}: written for {to}{f' in {quantization}' if quantization else ''}, {size / 1e6:.1f} MB", err=True)

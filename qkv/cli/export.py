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
    sample: Annotated[
        Path | None,
        typer.Option(
            help="Sources, one a line, on which a quantised model is compared with float32; by default dev sources of "
            "the run, or random ones."
        ),
    ] = None,
) -> None:
    """Write a model in the format of another program."""
    from qkv.decoding.export_check import ExportCheck, sample_texts
    from qkv.interop.export import export_model
    from qkv.progress import default_reporter
    from qkv.training.run_folder import RunFolder

    reporter = default_reporter()
    try:
        reporter.counting("Exporting")(0, None)
        texts = sample_texts(sample, RunFolder(model).dev_data)
        size = export_model(model, to, out, quantization, ExportCheck(to, quantization, texts, reporter))
    finally:
        reporter.close()
    typer.echo(f"{out}: written for {to}{f' in {quantization}' if quantization else ''}, {size / 1e6:.1f} MB", err=True)

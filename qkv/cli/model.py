"""qkv average, qkv attach, qkv export and qkv import: a model folder from another one"""

from pathlib import Path
from typing import Annotated

import typer


def average(
    run: Annotated[Path, typer.Argument(help="The folder of a run.")],
    out: Annotated[Path, typer.Option(help="The model folder to write.")],
    last: Annotated[int | None, typer.Option(min=1, help="Average this many of the newest checkpoints.")] = None,
    best: Annotated[int | None, typer.Option(min=1, help="Average this many of the best checkpoints.")] = None,
) -> None:
    """Average the weights of several checkpoints of a run into one model."""
    from qkv.training.run.average import average_run

    used = average_run(run, out, last=last, best=best)
    typer.echo(f"{out}: the average of {', '.join(folder.name for folder in used)}", err=True)


def attach(
    model: Annotated[Path, typer.Argument(help="The folder of a model or of a run: an autoregressive one.")],
    drafter: Annotated[Path, typer.Argument(help="The folder of a non-autoregressive one with the same vocabulary.")],
    out: Annotated[Path | None, typer.Option(help="Write a new folder instead of changing the model's.")] = None,
) -> None:
    """Put a drafter into a model's folder: greedy search then uses it, faster and with the same output."""
    from qkv.search.speculative.attach import attach_drafter

    written = attach_drafter(model, drafter, out)
    typer.echo(f"{written}: carries its drafter; qkv translate {written} search.kind=greedy uses it", err=True)


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
            help="Sources, one per line, on which a quantised model is compared with float32; by default dev sources "
            "of the run, or random ones."
        ),
    ] = None,
) -> None:
    """Export a model to another format."""
    from qkv.core.progress import default_reporter
    from qkv.export.folder import export_model
    from qkv.training.run.folder import RunFolder
    from qkv.translate.export_check import ExportCheck, sample_texts

    reporter = default_reporter()
    try:
        reporter.counting("Exporting")(0, None)
        texts = sample_texts(sample, RunFolder(model).dev_data)
        size = export_model(model, to, out, quantization, ExportCheck(to, quantization, texts, reporter))
    finally:
        reporter.close()
    typer.echo(f"{out}: written for {to}{f' in {quantization}' if quantization else ''}, {size / 1e6:.1f} MB", err=True)


def import_(
    folder: Annotated[Path, typer.Argument(help="A folder as save_pretrained of transformers writes it.")],
    out: Annotated[Path, typer.Option(help="The model folder to write.")],
) -> None:
    """Import a model of Hugging Face transformers."""
    from qkv.export.importing.folder import import_model

    saved = import_model(folder, out)
    config = saved.config.model
    typer.echo(f"{out}: a model of the kind {config.kind}; {config.answered_by}", err=True)

"""qkv see"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class SeeFormat(StrEnum):
    """What is written."""

    html = "html"
    bertviz = "bertviz"


def see(
    model: Annotated[Path, typer.Argument(help="The folder of a model or of a run.")],
    text: Annotated[str | None, typer.Argument(help="The source text; none: how the run learned.")] = None,
    overrides: Annotated[list[str] | None, typer.Argument(help="Settings, such as search.size=3.")] = None,
    out: Annotated[Path | None, typer.Option(help="The file to write; default: a new file, see.html.")] = None,
    compare: Annotated[
        list[Path] | None, typer.Option(help="A second model, shown beside the first; another run, or several.")
    ] = None,
    format: Annotated[
        SeeFormat, typer.Option(help="A page for the browser, or arrays for bertviz (.npz or .json).")
    ] = SeeFormat.html,
) -> None:
    """Write a page: with a text, how a model computed its output, which is printed; without, how a run learned."""
    from qkv.core.errors import UsageError
    from qkv.core.outputs import free_name, require_writable

    if format is SeeFormat.bertviz and (compare or text is None):
        raise UsageError("--format bertviz: it shows a text in one model; give a text and leave --compare out")
    out = out or free_name("see", ".html" if format is SeeFormat.html else ".npz")
    require_writable({"--out": out})
    if text is None:
        _see_runs([model, *(compare or [])], out)
    else:
        _see_text([model, *(compare or [])], text, overrides or [], out, format)


def _see_runs(runs: list[Path], out: Path) -> None:
    from qkv.visual.see.page import RunView

    view = RunView(runs)
    view.save(out)
    for run in view.runs:
        typer.echo(
            f"{out}: {run['name']}, {run['updates']:,} updates, {len(run['snapshots'])} validations with attention",
            err=True,
        )


def _see_text(models: list[Path], text: str, overrides: list[str], out: Path, format: SeeFormat) -> None:
    from qkv.core.errors import UsageError
    from qkv.core.progress import default_reporter
    from qkv.translate.settings import translation_config
    from qkv.visual.see.bertviz import write_bertviz
    from qkv.visual.see.inside import look_inside
    from qkv.visual.source import require_utf8

    require_utf8(text)
    if len(models) > 2:
        raise UsageError("--compare: a text is shown in two models at most; give one")
    others = [each for each in overrides if not each.startswith("search")]
    if others:
        raise UsageError(f"{others[0]}: only settings of the search matter here, such as search.size=3; leave it out")
    search = translation_config(overrides, models[0]).search if overrides else None
    reporter = default_reporter(quiet=2.0)
    reporter.counting("running the model with everything recorded")(0, None)
    try:
        view = look_inside(models[0], text, models[1] if len(models) > 1 else None, search)
        view.save(out) if format is SeeFormat.html else write_bertviz(out, view.sentences[0])
    finally:
        reporter.close()
    for seen in view.sentences:
        print(seen.output)
    first, size = view.sentences[0], out.stat().st_size / 1e6
    typer.echo(f"{out}: {len(first.attentions)} attentions of {first.name}, {size:.2f} MB", err=True)

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
    text: Annotated[str, typer.Argument(help="The source text.")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Settings, such as search.size=3.")] = None,
    out: Annotated[Path | None, typer.Option(help="The file to write; default: a new file, see.html.")] = None,
    compare: Annotated[Path | None, typer.Option(help="A second model, shown beside the first.")] = None,
    format: Annotated[
        SeeFormat, typer.Option(help="A page for the browser, or arrays for bertviz (.npz or .json).")
    ] = SeeFormat.html,
) -> None:
    """Write a page that shows how a model computed its output for a text; prints the output."""
    from qkv.core.errors import UsageError
    from qkv.core.outputs import free_name, require_writable
    from qkv.core.progress import default_reporter
    from qkv.translate.settings import translation_config
    from qkv.visual.see.bertviz import write_bertviz
    from qkv.visual.see.inside import look_inside
    from qkv.visual.source import require_utf8

    require_utf8(text)
    if compare is not None and format is SeeFormat.bertviz:
        raise UsageError("--compare: bertviz shows one model; leave it out, or write a page")
    others = [each for each in overrides or [] if not each.startswith("search")]
    if others:
        raise UsageError(f"{others[0]}: only settings of the search matter here, such as search.size=3; leave it out")
    out = out or free_name("see", ".html" if format is SeeFormat.html else ".npz")
    require_writable({"--out": out})
    search = translation_config(overrides, model).search if overrides else None
    reporter = default_reporter(quiet=2.0)
    reporter.counting("running the model with everything recorded")(0, None)
    try:
        view = look_inside(model, text, compare, search)
        view.save(out) if format is SeeFormat.html else write_bertviz(out, view.sentences[0])
    finally:
        reporter.close()
    for seen in view.sentences:
        print(seen.output)
    size = out.stat().st_size / 1e6
    typer.echo(
        f"{out}: {len(view.sentences[0].attentions)} attentions of {view.sentences[0].name}, {size:.2f} MB", err=True
    )

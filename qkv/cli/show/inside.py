"""qkv show: what a model does with a text, or is made of."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

if TYPE_CHECKING:
    from qkv.models.transformer.model import Transformer
    from qkv.visual.figures.canvas import PaperFigure

T = TypeVar("T")

app = typer.Typer(help="Draw what a model does.", no_args_is_help=True)

Out = Annotated[
    Path | None,
    typer.Option(help="The file to write: .svg, .png or .pdf; default: a new SVG in the working directory."),
]


def _write(
    out: Path | None,
    verb: str,
    shown: T,
    title: str,
    draw: Callable[[T, str], str],
    paint: Callable[[T, str], "PaperFigure"],
) -> Path:
    """Write to `out`, or to a new file VERB.svg: `draw` makes the SVG, `paint` what goes on paper."""
    from qkv.core.outputs import free_name, write_output

    out = out or free_name(verb, ".svg")
    if out.suffix.lower() == ".svg":
        write_output(out, draw(shown, title))
    else:
        paint(shown, title).write(out)
    return out


def _transformer(folder: Path) -> "Transformer":
    from qkv.engines.model_set import ModelSet
    from qkv.models.transformer.model import require_transformer

    return require_transformer(ModelSet([folder]).loaded[0].model, "this picture")


@app.command("beam")
def beam(
    model: Annotated[Path, typer.Argument(help="The folder of a model or of a run.")],
    text: Annotated[str, typer.Argument(help="The source text.")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Settings, such as search.size=3.")] = None,
    out: Out = None,
) -> None:
    """Draw the tree of a beam search for a text; prints the best output."""
    from qkv.core.errors import UsageError
    from qkv.engines.model_set import ModelSet
    from qkv.search.beam import BeamConfig
    from qkv.translate.settings import translation_config
    from qkv.visual.beam_tree import draw_tree, grow_tree
    from qkv.visual.figures.searches import beam_figure
    from qkv.visual.source import require_utf8

    require_utf8(text)
    config = translation_config(overrides or [])
    search = config.search
    if not isinstance(search, BeamConfig):
        raise UsageError("the picture shows a beam search, not another one; leave search.kind out")
    saved = ModelSet([model]).loaded[0]
    if saved.model.inference().steps is None:
        raise UsageError(f"a model of the kind {saved.model.kind} fills a canvas; qkv show passes draws that")
    nodes, best = grow_tree(saved, text, search, config.max_src_tokens)
    out = _write(out, "beam", nodes, f"Beam search of size {search.size} for: {text}", draw_tree, beam_figure)
    print(saved.tokenizers.tgt.decode(best.tokens))
    typer.echo(f"{out}: {len(nodes) - 1} hypotheses in {max(node.step for node in nodes)} steps", err=True)


@app.command("positions")
def positions(
    model: Annotated[Path | None, typer.Argument(help="The folder of a model or of a run; none: every scheme.")] = None,
    length: Annotated[int, typer.Option(min=2, max=200, help="Queries and keys.")] = 32,
    out: Out = None,
) -> None:
    """Draw what positions alone do to the scores of attention: of every scheme, or of the heads of a model."""
    from qkv.visual.figures.parts import position_figure
    from qkv.visual.positions import draw_positions, every_scheme, schemes_of

    panels = every_scheme(length) if model is None else schemes_of(_transformer(model), length)
    out = _write(
        out,
        "positions",
        panels,
        "What positions alone do to the scores of equal tokens",
        draw_positions,
        position_figure,
    )
    typer.echo(f"{out}: {', '.join(panels)}", err=True)


@app.command("depth")
def depth(
    model: Annotated[Path, typer.Argument(help="The folder of a model or of a run with model.stack=adaptive.")],
    text: Annotated[str, typer.Argument(help="The source text.")],
    out: Out = None,
) -> None:
    """Show how many steps each token of a text and of its greedy translation took."""
    from qkv.engines.model_set import ModelSet
    from qkv.visual.depth import depth_lines, depths_of, draw_depths
    from qkv.visual.figures.parts import depth_figure
    from qkv.visual.source import require_utf8

    require_utf8(text)
    depths = depths_of(ModelSet([model]).loaded[0], text)
    out = _write(out, "depth", depths, f"Steps for each token of: {text}", draw_depths, depth_figure)
    print("\n".join(depth_lines(depths)))
    typer.echo(f"{out}: {depths.output}", err=True)


@app.command("wiring")
def wiring(
    model: Annotated[Path | None, typer.Argument(help="The folder of a model or of a run; none: every wiring.")] = None,
    out: Out = None,
) -> None:
    """Draw which states of the encoder the decoder's layers attend to: of every wiring, or of a model."""
    from qkv.engines.model_set import ModelSet
    from qkv.models.transformer.config import require_transformer_config
    from qkv.models.transformer.model import require_transformer
    from qkv.visual.figures.parts import wiring_figure
    from qkv.visual.wirings import draw_wirings, every_wiring, wiring_of

    saved = None if model is None else ModelSet([model]).loaded[0]
    if saved is None:
        panels = every_wiring()
    else:
        wiring = require_transformer_config(saved.config.model, "this picture").wiring
        panels = {wiring.kind: wiring_of(require_transformer(saved.model, "this picture"))}
    title = "What the decoder attends to: encoder states left, decoder layers right"
    out = _write(out, "wiring", panels, title, draw_wirings, wiring_figure)
    typer.echo(f"{out}: {', '.join(panels)}", err=True)


@app.command("mask")
def mask(
    model: Annotated[Path | None, typer.Argument(help="The folder of a model or of a run; none: every kind.")] = None,
    length: Annotated[int, typer.Option(min=2, max=200, help="Queries and keys.")] = 32,
    out: Out = None,
) -> None:
    """Draw who may attend to whom, not how much: of every kind of attention, or of the layers of a model."""
    from qkv.visual.attention_patterns import draw_patterns, every_pattern, patterns_of
    from qkv.visual.figures.parts import mask_figure

    panels = every_pattern(length) if model is None else patterns_of(_transformer(model), length)
    out = _write(out, "mask", panels, "Attention masks: who may attend to whom", draw_patterns, mask_figure)
    typer.echo(f"{out}: {'; '.join(panels)}", err=True)


@app.command("attention", hidden=True)
def attention(
    model: Annotated[Path | None, typer.Argument(help="The folder of a model or of a run; none: every kind.")] = None,
    length: Annotated[int, typer.Option(min=2, max=200, help="Queries and keys.")] = 32,
    out: Out = None,
) -> None:
    """The old name of qkv show mask."""
    typer.echo("qkv: qkv show attention is deprecated; use qkv show mask (it draws masks, not weights)", err=True)
    mask(model, length, out)


@app.command("passes")
def passes(
    model: Annotated[Path, typer.Argument(help="The folder of a non-autoregressive model or of its run.")],
    text: Annotated[str, typer.Argument(help="The source text.")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Settings, such as search.passes=4.")] = None,
    out: Out = None,
) -> None:
    """Draw the passes of a non-autoregressive model over its canvas; prints the output."""
    from qkv.core.errors import UsageError
    from qkv.engines.model_set import ModelSet
    from qkv.search.refinement.search import RefineConfig
    from qkv.translate.settings import translation_config
    from qkv.visual.figures.searches import passes_figure
    from qkv.visual.passes import draw_passes, watch_passes
    from qkv.visual.source import require_utf8

    require_utf8(text)
    saved = ModelSet([model]).loaded[0]
    if saved.model.inference().parallel is None:
        raise UsageError(
            f"{model}: is an autoregressive model of the kind {saved.config.model.kind}, so it fills no canvas; "
            "qkv show beam draws its search"
        )
    config = translation_config(overrides or [], model)
    if not isinstance(config.search, RefineConfig):
        raise UsageError(f"a model of the kind {saved.model.kind} has one search, refine; leave search.kind out")
    rows, best = watch_passes(saved, text, config.search, config.max_src_tokens)
    out = _write(out, "passes", rows, f"Passes over the canvas for: {text}", draw_passes, passes_figure)
    print(saved.tokenizers.tgt.decode(best.tokens))
    typer.echo(f"{out}: {len(rows)} passes over {len(rows[0])} positions", err=True)


@app.command("drafts")
def drafts(
    model: Annotated[Path, typer.Argument(help="The folder of a model or of a run.")],
    text: Annotated[str, typer.Argument(help="The source text.")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Settings, such as draft.block=5.")] = None,
    draft: Annotated[str, typer.Option(help="What drafts: see qkv translate --draft.")] = "auto",
    out: Out = None,
) -> None:
    """Draw which tokens were drafted in each pass of greedy search, and which were right; prints the output."""
    from qkv.core.errors import UsageError
    from qkv.engines.drafts import choose_draft
    from qkv.engines.model_set import ModelSet
    from qkv.search.greedy import GreedyConfig
    from qkv.translate.settings import translation_config, with_draft
    from qkv.visual.drafts import draw_drafts, watch_drafts
    from qkv.visual.figures.searches import drafts_figure
    from qkv.visual.source import require_utf8

    require_utf8(text)
    models = ModelSet([model])
    config = translation_config(["search.kind=greedy", *with_draft(overrides or [], draft)], model)
    drafter = choose_draft(config.draft or draft, models, config.search)
    if drafter is None or not isinstance(config.search, GreedyConfig):
        raise UsageError("the picture shows drafts for greedy search: give --draft jacobi, or a folder, and no search")
    passes, best = watch_drafts(models.loaded[0], text, drafter, config.search, config.max_src_tokens)
    out = _write(out, "drafts", passes, f"Drafts for: {text}", draw_drafts, drafts_figure)
    print(models.tokenizers.tgt.decode(best.tokens))
    typer.echo(f"{out}: {len(best.token_scores)} tokens in {len(passes)} passes", err=True)

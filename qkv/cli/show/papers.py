"""qkv show: figures for papers, as SVG, PNG or PDF."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from qkv.cli.show.inside import app

if TYPE_CHECKING:
    from qkv.visual.figures.canvas import PaperFigure

Out = Annotated[
    Path | None,
    typer.Option(help="The file to write: .svg, .png or .pdf; default: a new SVG in the working directory."),
]
Side = Annotated[Literal["encoder", "decoder", "cross"], typer.Option(help="Which attention.")]


def _write(out: Path | None, verb: str, figure: "PaperFigure") -> None:
    from qkv.core.outputs import free_name

    out = out or free_name(verb, ".svg")
    figure.write(out)
    typer.echo(f"{out}: {figure.title}", err=True)


@app.command("weights")
def weights(
    model: Annotated[Path, typer.Argument(help="The folder of a model or of a run.")],
    src: Annotated[str, typer.Argument(help="The source text.")],
    tgt: Annotated[str, typer.Argument(help="The target text.")],
    side: Side = "cross",
    layer: Annotated[int | None, typer.Option(min=1, help="Only this layer, counted from 1.")] = None,
    out: Out = None,
) -> None:
    """Draw the attention weights of each head for a pair of texts."""
    from qkv.models.saved.folder import load_model
    from qkv.visual.figures.attention import attention_figure

    _write(out, "weights", attention_figure(load_model(model), src, tgt, side, layer))


@app.command("heads")
def heads(
    analysis: Annotated[Path, typer.Argument(help="What qkv heads --json printed.")],
    side: Side = "encoder",
    out: Out = None,
) -> None:
    """Draw the map of the heads of a model, coloured by layer."""
    from qkv.visual.figures.tables import head_map_figure

    _write(out, "heads", head_map_figure(analysis, side))


@app.command("sinusoids")
def sinusoids(
    length: Annotated[int, typer.Option(min=1, max=5000, help="Positions.")] = 50,
    width: Annotated[int, typer.Option(min=2, max=5000, help="Channels.")] = 128,
    out: Out = None,
) -> None:
    """Draw the matrix of sinusoidal positions."""
    from qkv.visual.figures.sinusoids import sinusoid_figure

    _write(out, "sinusoids", sinusoid_figure(length, width))


@app.command("curves")
def curves(
    runs: Annotated[
        list[Path], typer.Argument(help="Folders of runs; name-1, name-2 ... become one line with a band.")
    ],
    number: Annotated[str, typer.Option("--number", help="A number of the validations, or train_loss.")] = "loss",
    out: Out = None,
) -> None:
    """Draw the learning curves of several runs."""
    from qkv.visual.figures.curves import learning_figure

    _write(out, "curves", learning_figure(runs, number))


@app.command("schedules")
def schedules(
    recipe: Annotated[
        Path | None, typer.Argument(help="A recipe or a run's config.yaml; none: every schedule.")
    ] = None,
    updates: Annotated[int, typer.Option(min=2, help="Length of the run.")] = 4000,
    width: Annotated[int, typer.Option(min=1, help="Width of the model, without a recipe.")] = 512,
    out: Out = None,
) -> None:
    """Draw the learning rate of every schedule, or of a recipe."""
    from qkv.config import load_config
    from qkv.training.recipe import SavedRecipe
    from qkv.visual.figures.curves import every_schedule, schedule_figure

    chosen = every_schedule(updates)
    if recipe is not None:
        read = load_config(SavedRecipe, recipe)
        chosen, width = {read.schedule.kind: read.schedule}, read.model.d_model
    _write(out, "schedules", schedule_figure(chosen, updates, width))


@app.command("speed")
def speed(
    table: Annotated[Path, typer.Argument(help="Lines of name, speed, score (and group) with tabs, under a header.")],
    lower: Annotated[bool, typer.Option("--lower", help="A lower score is better, as with error rates.")] = False,
    out: Out = None,
) -> None:
    """Draw quality against speed."""
    from qkv.visual.figures.tables import speed_figure

    _write(out, "speed", speed_figure(table, not lower))


@app.command("lengths")
def lengths(
    evaluations: Annotated[
        list[Path], typer.Argument(help="What qkv evaluate --json printed, a file for each system.")
    ],
    metric: Annotated[str | None, typer.Option(help="Which of the metrics; default: the first.")] = None,
    out: Out = None,
) -> None:
    """Draw scores by length, with 95 % intervals."""
    from qkv.visual.figures.tables import length_figure

    _write(out, "lengths", length_figure(evaluations, metric))


@app.command("alignment")
def alignment(
    model: Annotated[Path, typer.Argument(help="The folder of a model or of a run.")],
    src: Annotated[str, typer.Argument(help="The source text.")],
    tgt: Annotated[str, typer.Argument(help="The target text.")],
    layer: Annotated[int, typer.Option(min=1, help="Decoder layer, counted from 1.")] = 1,
    head: Annotated[int, typer.Option(min=0, help="Its head, counted from 1; 0: the mean over all.")] = 0,
    out: Out = None,
) -> None:
    """Draw how the words of a pair align by attention; qkv align finds the best head and takes many pairs."""
    from qkv.translate.align import Aligner, AlignmentHead
    from qkv.visual.figures.alignment import alignment_figure

    aligner, chosen = Aligner(model), AlignmentHead(layer, head)
    (found,) = aligner.align([(src, tgt)], chosen)
    _write(out, "alignment", alignment_figure({str(chosen): found}, f"Alignment of: {src}"))

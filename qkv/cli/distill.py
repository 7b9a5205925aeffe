"""qkv distill"""

from pathlib import Path
from typing import Annotated

import typer


def distill(
    teacher: Annotated[Path, typer.Argument(help="The folder of a model, of a run, or of an exported model.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Settings, such as search.size=10, or data.root=DIR of the recipe.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="A recipe: its data.train is distilled, as training would filter it.")
    ] = None,
    src: Annotated[Path | None, typer.Option(help="Or the sources, one a line; every line is kept.")] = None,
    tgt: Annotated[
        Path | None, typer.Option(help="The targets of --src, one a line; only --closest needs them.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The new folder; the same command again resumes a stopped job.")] = Path(
        "distilled"
    ),
    closest: Annotated[
        int | None,
        typer.Option(min=1, help="Of this many outputs, take the one closest to the target (sentence BLEU)."),
    ] = None,
    ensemble: Annotated[
        list[Path] | None, typer.Option("--with", help="Another teacher for an ensemble; repeatable.")
    ] = None,
    engine: Annotated[
        str,
        typer.Option(help="What runs the model: torch, ctranslate2, onnxruntime; auto: the fastest that can."),
    ] = "auto",
    beam: Annotated[int | None, typer.Option(min=1, help="Short for search.size=N.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; default: one for each core.")] = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Start the job of --out again from the first line.")
    ] = False,
) -> None:
    """Replace the targets of training data by the outputs of a teacher, for a student to learn from."""
    from qkv.core.errors import UsageError
    from qkv.core.outputs import refuse_inside
    from qkv.core.progress import default_reporter
    from qkv.kernels.memory import keep_freed_memory
    from qkv.recipes import load_recipe
    from qkv.translate.jobs.distill import as_recipe, at_work_on, distill, prepare_files, prepare_recipe
    from qkv.translate.settings import translation_config, with_beam

    if (data is None) == (src is None) or (tgt and not src):
        raise UsageError("say what to distil: --data RECIPE, or --src FILE and perhaps --tgt FILE")
    refuse_inside(out, [src, tgt])
    keep_freed_memory()
    of_recipe = [override for override in overrides or [] if override.split("=")[0].split(".")[0].strip() == "data"]
    others = [override for override in overrides or [] if override not in of_recipe]
    if of_recipe and data is None:
        raise UsageError(f"{of_recipe[0]}: changes a recipe; give one by --data")
    config = translation_config(with_beam(others, beam, teacher), teacher)
    translator = config.translator([teacher, *(ensemble or [])], engine, workers or "auto")
    reporter = default_reporter(quiet=2.0)
    recipe = None if data is None else load_recipe(data, of_recipe)
    if recipe is not None:
        files = (path for corpus in recipe.data.train for path in corpus.files().values())
        refuse_inside(out, [recipe.data.root / path for path in files])
    try:
        with at_work_on(out):
            if recipe is not None:
                prepare_recipe(recipe.data, translator, out, reporter)
            else:
                assert src is not None
                prepare_files(src, tgt, out)
            distill(translator, out, closest, reporter, restart)
    finally:
        reporter.close()
    print(as_recipe(out))

"""qkv distill and qkv backtranslate: pairs of which a model writes one side"""

from pathlib import Path
from typing import Annotated

import typer

from qkv.cli.shared.job_options import Beam, Engine, Ensemble, NewFolder, On, Restart, Workers


def distill(
    teacher: Annotated[Path, typer.Argument(help="The folder of a model, of a run, or of an exported model.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Settings, such as search.size=10, or data.root=DIR of the recipe.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="A recipe: its data.train is distilled, as training would filter it.")
    ] = None,
    src: Annotated[Path | None, typer.Option(help="Or the sources, one per line; every line is kept.")] = None,
    tgt: Annotated[
        Path | None, typer.Option(help="The targets of --src, one per line; only --closest needs them.")
    ] = None,
    out: NewFolder = Path("distilled"),
    closest: Annotated[
        int | None,
        typer.Option(min=1, help="Of this many outputs, take the one closest to the target (sentence BLEU)."),
    ] = None,
    ensemble: Ensemble = None,
    engine: Engine = "auto",
    beam: Beam = None,
    workers: Workers = None,
    restart: Restart = False,
    on: On = None,
) -> None:
    """Replace the targets of training data by the outputs of a teacher, for a student to learn from."""
    from qkv.core.errors import UsageError
    from qkv.core.outputs import refuse_inside
    from qkv.core.progress import default_reporter
    from qkv.data.config import PairsConfig
    from qkv.kernels.memory import keep_freed_memory
    from qkv.recipes import load_recipe
    from qkv.translate.cluster.translating import chunks_if
    from qkv.translate.jobs.distill import DISTILLED, as_recipe, distill, prepare_files, prepare_recipe
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
    translator = config.translator([teacher, *(ensemble or [])], engine, "auto" if on else workers or "auto")
    reporter = default_reporter(quiet=2.0)
    recipe = None if data is None else load_recipe(data, of_recipe)
    if recipe is not None:
        if not isinstance(recipe.data, PairsConfig):
            raise UsageError(f"--data {data}: has data.kind {recipe.data.kind}; pairs are distilled")
        files = (path for corpus in recipe.data.train for path in corpus.files().values())
        refuse_inside(out, [recipe.data.root / path for path in files])
    try:
        with DISTILLED.at_work_on(out):
            if recipe is not None:
                assert isinstance(recipe.data, PairsConfig)
                prepare_recipe(recipe.data, translator, out, reporter)
            else:
                assert src is not None
                prepare_files(src, tgt, out)
            with chunks_if(on, workers, translator) as chunks:
                distill(translator, out, closest, reporter, restart, chunks)
    finally:
        reporter.close()
    print(as_recipe(out))


def backtranslate(
    model: Annotated[Path, typer.Argument(help="A model of the opposite direction, or the folder of its run.")],
    mono: Annotated[Path, typer.Option(help="Texts of the target side, one per line.")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Settings, such as search.kind=sample.")] = None,
    out: NewFolder = Path("backtranslated"),
    tag: Annotated[str | None, typer.Option(help="A word to put before every synthetic source, such as ¤.")] = None,
    ensemble: Ensemble = None,
    engine: Engine = "auto",
    beam: Beam = None,
    workers: Workers = None,
    restart: Restart = False,
    on: On = None,
) -> None:
    """Turn texts of the target side into training pairs: a model of the opposite direction writes their sources."""
    from qkv.core.outputs import refuse_inside
    from qkv.core.progress import default_reporter
    from qkv.kernels.memory import keep_freed_memory
    from qkv.translate.cluster.translating import chunks_if
    from qkv.translate.jobs.backtranslate import as_corpus, backtranslate
    from qkv.translate.settings import translation_config, with_beam

    refuse_inside(out, [mono])
    keep_freed_memory()
    config = translation_config(with_beam(overrides or [], beam, model), model)
    translator = config.translator([model, *(ensemble or [])], engine, "auto" if on else workers or "auto")
    reporter = default_reporter(quiet=2.0)
    try:
        with chunks_if(on, workers, translator) as chunks:
            backtranslate(translator, mono, out, tag, reporter, restart, chunks)
    finally:
        reporter.close()
    print(as_corpus(out))

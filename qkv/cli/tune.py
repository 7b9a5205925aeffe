"""qkv tune"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from qkv.cli.evaluate import AsJson, Engine
from qkv.cli.test_data import Language, Metrics, Pairs, References, Source

if TYPE_CHECKING:
    from qkv.evaluation.files import EvaluationSet
    from qkv.evaluation.tables import Table
    from qkv.evaluation.tune import Tuning
    from qkv.progress import Reporter


FEW = 100
"""Fewer sources than this tell good and better settings hardly apart."""


def tune(
    model: Annotated[Path, typer.Argument(help="The folder of a model, of a run, or of an exported model.")],
    settings: Annotated[
        list[str] | None,
        typer.Argument(help="What to try, such as search.size=2,4,8; one value holds for all. Default: a usual grid."),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Pairs as training reads them (.tsv, .csv, .jsonl, .parquet), or a recipe: its dev data. "
            "Of a run, its own is the default.",
        ),
    ] = None,
    src: Source = None,
    ref: References = None,
    tsv: Pairs = None,
    engine: Engine = "auto",
    metrics: Metrics = None,
    lang: Language = None,
    max_sources: Annotated[
        int | None, typer.Option(min=1, help="Decode only so many sources, evenly spread; default: all.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the table and store nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Choose the settings of the search on dev data, and store them with the model, which then uses them by default."""
    import json

    from qkv.cli.tables import print_tables
    from qkv.cli.test_data import choose
    from qkv.config import load_config
    from qkv.decoding.settings import translation_config
    from qkv.evaluation.tune import grid_of, overrides_of, recommend, spread, tune
    from qkv.models.folder import CONFIG, SavedConfig
    from qkv.models.locate import locate_model
    from qkv.progress import default_reporter

    folder = locate_model(model)
    fixed, points = grid_of(settings or [], load_config(SavedConfig, folder / CONFIG).model.decoder)
    reporter = default_reporter(quiet=2.0)
    try:
        test = spread(_dev_set(model, data, src, ref or [], tsv, reporter), max_sources)
        chosen = choose(metrics, test, lang)
        translator = translation_config(overrides_of(fixed)).translator([folder], engine, draft="none")
        found = tune(translator, test, chosen, fixed, points, reporter.counting("Tuning"))
    finally:
        reporter.close()
    if as_json:
        print(json.dumps(found.as_dict(), indent=2))
    else:
        print_tables([_table(found, len(test))])
    if len(test) < FEW:
        typer.echo(f"only {len(test):,} sources: small differences are chance; give more to choose by", err=True)
    best = " ".join(overrides_of(fixed | found.best.settings))
    if dry_run:
        typer.echo(f"best: {best}; nothing was stored", err=True)
        return
    typer.echo(f"{recommend(folder, found.recommended)}: uses {best} from now on", err=True)


def _dev_set(
    model: Path, data: str | None, src: Path | None, ref: list[Path], tsv: Path | None, reporter: "Reporter"
) -> "EvaluationSet":
    """What was given; else the dev data of a recipe, or of the run that the model belongs to."""
    from itertools import chain

    from qkv.data.parts import data_parts
    from qkv.data.readers.named import names_corpus
    from qkv.data.store import PairStore
    from qkv.errors import UsageError
    from qkv.evaluation.files import read_evaluation_set, set_of_pairs
    from qkv.recipes import load_recipe
    from qkv.training.run_folder import RunFolder

    if data is not None and (src or ref or tsv):
        raise UsageError("--data names pairs, or a recipe with dev data: give it alone, or give --src and --ref")
    if data is not None and names_corpus(data):
        return read_evaluation_set([], None, None, data)
    if data is not None:
        parts = data_parts(load_recipe(data).data, reporter.counting("Reading"))
        if "dev" not in parts:
            raise UsageError(f"{data}: has no dev data; add data.dev or data.holdout, or give --tsv")
        dev = zip(parts["dev"].texts("src"), parts["dev"].texts("tgt"), strict=True)
        return set_of_pairs(str(data), [(one, other) for one, other in dev if one.strip() and other.strip()])
    stored = RunFolder(model).dev_data
    if not (src or ref or tsv) and stored.is_dir():
        return set_of_pairs(str(stored), list(chain.from_iterable(PairStore.open(stored).chunks())))
    return read_evaluation_set(ref, src, tsv)


def _table(found: "Tuning", outputs: int) -> "Table":
    from qkv.evaluation.tables import Table

    keys = list(dict.fromkeys(key for trial in found.trials for key in trial.settings))
    rows = [
        [
            *(trial.settings.get(key, "") for key in keys),
            *(f"{score:.2f}" for score in trial.scores),
            f"{trial.outputs_cut:,}",
            f"{trial.seconds:.1f}",
            "best" if trial is found.best else "",
        ]
        for trial in found.trials
    ]
    header = [*keys, *(metric.title for metric in found.metrics), "cut", "seconds", ""]
    return Table(f"{outputs:,} sources", header, rows, {len(header) - 1})

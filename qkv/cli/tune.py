"""qkv tune"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from qkv.cli.evaluate import AsJson, Engine
from qkv.cli.shared.evaluation_options import Data, Language, Metrics, Pairs, References, Source

if TYPE_CHECKING:
    from qkv.evaluation.report.tables import Table
    from qkv.evaluation.tune import Tuning


FEW = 100
"""With fewer sources than this, settings can hardly be distinguished."""


def tune(
    model: Annotated[Path, typer.Argument(help="The folder of a model, of a run, or of an exported model.")],
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            help="What to try, such as search.size=2,4,8; one value is fixed. Default: a grid for the decoder."
        ),
    ] = None,
    data: Data = None,
    src: Source = None,
    ref: References = None,
    tsv: Pairs = None,
    engine: Engine = "auto",
    metrics: Metrics = None,
    lang: Language = None,
    max_sources: Annotated[
        int | None, typer.Option(min=1, help="Decode only this many sources, evenly spread; default: all.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the table and store nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Tune the search settings on dev data and store them with the model as its default.

    Without data, a run is tuned on the dev data that its recipe names.
    """
    import json

    from qkv.cli.shared.evaluation_options import choose, given_test_set, own_test
    from qkv.cli.shared.tables import print_tables
    from qkv.config import load_config
    from qkv.core.progress import default_reporter
    from qkv.evaluation.tune import grid_of, overrides_of, spread_questions, tune
    from qkv.models.asked import require_seq2seq
    from qkv.models.pretrained import refuse_to_change
    from qkv.models.saved.folder import CONFIG, SavedConfig
    from qkv.models.saved.locate import locate_model
    from qkv.training.run.folder import require_free
    from qkv.training.run.recommend import recommend
    from qkv.translate.settings import translation_config

    folder = locate_model(model)
    if not dry_run:
        refuse_to_change(folder)
        # A training that finds a better model would replace the folder, and what is stored with it.
        require_free(folder.parent)
    decoder = require_seq2seq(load_config(SavedConfig, folder / CONFIG).model, folder).decoder
    fixed, points = grid_of(settings or [], decoder)
    test = spread_questions(given_test_set(ref, src, tsv, data, None) or own_test([model], "dev"), max_sources)
    chosen = choose(metrics, test, lang)
    reporter = default_reporter(quiet=2.0)
    try:
        others = {key: value for key, value in fixed.items() if not key.startswith("search.")}
        translator = translation_config(overrides_of(others), folder).translator([folder], engine, draft="none")
        found = tune(translator, test, chosen, fixed, points, reporter.counting("Tuning"))
    finally:
        reporter.close()
    if as_json:
        print(json.dumps(found.as_dict(), indent=2))
    else:
        print_tables([_table(found, len(test))])
    if len(test) < FEW:
        typer.echo(f"only {len(test):,} sources: small differences are chance; give more to choose by", err=True)
    if found.recommended is None:
        typer.echo("nothing was stored: no other settings are better than the present ones", err=True)
        return
    best = " ".join(overrides_of(found.best_search))
    if dry_run:
        typer.echo(f"best: {best}; nothing was stored", err=True)
        return
    recommend(folder, found.recommended, translator.models.checksums[0])
    typer.echo(f"{folder}: uses {best} from now on", err=True)


def _table(found: "Tuning", outputs: int) -> "Table":
    from qkv.evaluation.report.tables import Table

    keys = list(dict.fromkeys(key for trial in found.trials for key in trial.settings))
    rows = [
        [
            *(trial.settings.get(key, "") for key in keys),
            *(f"{score:.2f}" for score in trial.scores),
            f"{trial.outputs_cut:,}",
            f"{trial.seconds:.1f}",
            ", ".join(["present"] * trial.present + ["best"] * (trial is found.best)),
        ]
        for trial in found.trials
    ]
    header = [*keys, *(metric.title for metric in found.metrics), "cut", "seconds", ""]
    return Table(f"{outputs:,} sources", header, rows, {len(header) - 1})

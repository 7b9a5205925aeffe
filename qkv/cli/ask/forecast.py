"""qkv forecast"""

from pathlib import Path
from typing import Annotated

import typer


def forecast(
    model: Annotated[Path, typer.Argument(help="The folder of a model or of a run.")],
    data: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="Series up to now: .csv with a column for each, .npz, or as in a recipe: "
            "'{kind: csv, path: FILE, columns: [co2], missing: interpolate}'.",
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Continue each series of a table: CSV with a row for each step ahead and a column for each series."""
    import csv
    import json
    import sys
    import tempfile

    from qkv.cli.shared.streams import require_stdout
    from qkv.data.series.named import series_of
    from qkv.evaluation.forecasting.forecast import Forecaster

    require_stdout()
    forecaster = Forecaster(model)
    with tempfile.TemporaryDirectory(prefix="qkv-") as scratch:
        found = forecaster.continued(series_of(data).read(Path("."), Path(scratch)))
    if as_json:
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["step", *found])
    for step, values in enumerate(zip(*found.values(), strict=True), start=1):
        writer.writerow([step, *(f"{value:.7g}" for value in values)])

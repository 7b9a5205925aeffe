"""qkv data"""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Look at the data before training on it.")


@app.command("check")
def check(
    recipe: Annotated[Path, typer.Argument(help="The recipe, a YAML file.")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Changes, as key.sub=value.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Sizes, lengths, unknown tokens, duplicates, overlap of train and test, and samples as the model sees them."""
    import json

    from qkv.config import load_config
    from qkv.progress import default_reporter
    from qkv.training.inspect_data import inspect_data
    from qkv.training.recipe import Recipe

    reporter = default_reporter()
    try:
        report = inspect_data(load_config(Recipe, recipe, overrides or []), reporter.counting)
    finally:
        reporter.close()
    print(json.dumps(report.as_dict(), indent=2, ensure_ascii=False) if as_json else report.render().rstrip("\n"))

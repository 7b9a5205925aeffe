"""qkv pretrained: the trained models that come with the package"""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    no_args_is_help=True,
    help="The trained models that come with qkv: list them, read their cards, copy one to train it further.",
)

Name = Annotated[str, typer.Argument(help="One of the names that qkv pretrained list prints.")]


@app.command("list")
def list_() -> None:
    """Print the names of the models and what each of them does."""
    from qkv.models.pretrained import card_title, pretrained_names

    width = max(map(len, pretrained_names()), default=0)
    for name in pretrained_names():
        print(f"{name:{width}}  {card_title(name)}")


@app.command("show")
def show(name: Name) -> None:
    """Print the card of a model: data, training, scores and limits."""
    from qkv.models.pretrained import pretrained_card

    print(pretrained_card(name), end="")


@app.command("copy")
def copy(
    name: Name,
    dest: Annotated[Path | None, typer.Argument(help="The folder to write; default: NAME.")] = None,
) -> None:
    """Copy the folder of a model, to change it."""
    from qkv.core.errors import UsageError
    from qkv.models.pretrained import require_pretrained
    from qkv.models.saved.locate import changed_copy

    folder, path = require_pretrained(name), dest or Path(name)
    if path.exists():
        raise UsageError(f"{path}: exists already; name another folder")
    with changed_copy(folder, path):
        pass
    typer.echo(f"{path}: copied; use it as the folder of a model: qkv translate {path}", err=True)

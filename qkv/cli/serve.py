"""qkv serve and qkv keys: a translation server, and the keys of its clients"""

from pathlib import Path
from typing import Annotated

import typer


def serve(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            help="Folders of models or runs, or names of models that come with qkv (FOLDER=de-en names the languages), "
            "and settings such as port=8080 or limits.texts=16."
        ),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A YAML file with the models and settings of the server.")] = None,
) -> None:
    """Serve models over HTTP: the interface of LibreTranslate, and one of its own."""
    from qkv.core.errors import UsageError

    try:
        from qkv.serving.server import serve as run
        from qkv.serving.settings import serve_config
    except ImportError as error:
        raise UsageError(f"serving needs {error.name}; install it with: pip install 'qkv[serve]'") from error
    run(lambda: serve_config(models or [], config))


def keys(
    file: Annotated[Path, typer.Argument(help="The file of keys; it is made if it is not there.")],
    name: Annotated[str, typer.Argument(help="Who the key is for.")],
    per_minute: Annotated[
        int, typer.Option(min=0, max=999_999_999, help="Requests allowed in a minute; 0: any number.")
    ] = 0,
) -> None:
    """Make an API key for `qkv serve MODEL keys=FILE`; it is printed once and cannot be read from the file."""
    from qkv.serving.keys import add_key

    print(add_key(file, name, per_minute))

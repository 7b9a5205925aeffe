"""qkv tokenizer"""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Train tokenizers and try them.")


@app.command("train")
def train(
    recipe: Annotated[Path, typer.Argument(help="The recipe: a YAML file, or a name of qkv recipe list.")],
    out: Annotated[Path, typer.Option(help="The folder to write.")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Changes, as key.sub=value.")] = None,
) -> None:
    """Train the tokenizers of a recipe without training a model."""
    from qkv.core.errors import UsageError
    from qkv.core.outputs import refuse_kept
    from qkv.core.progress import default_reporter
    from qkv.data.tasks import task_of
    from qkv.recipes import load_recipe
    from qkv.training.setup.prepare import train_tokenizers

    if out.exists():
        raise UsageError(f"{out}: exists already; choose another folder for the tokenizers")
    refuse_kept("--out", out)
    loaded = load_recipe(recipe, overrides or [])
    reporter = default_reporter()
    try:
        reporter.counting("Training tokenizers")(0, None)
        pair = train_tokenizers(loaded.text, task_of(loaded.data).parts()["train"], out)
    finally:
        reporter.close()
    sizes = f"{len(pair.src):,} tokens" if pair.shared else f"{len(pair.src):,} and {len(pair.tgt):,} tokens"
    typer.echo(f"{out}: {sizes}", err=True)


@app.command("encode")
def encode(
    folder: Annotated[Path, typer.Argument(help="A folder of tokenizers, as qkv tokenizer train or a run writes.")],
    side: Annotated[str, typer.Option(help="src or tgt.")] = "src",
) -> None:
    """Show the tokens of each line of standard input."""
    import sys

    from qkv.core.errors import UsageError
    from qkv.text import load_tokenizers

    pair = load_tokenizers(folder)
    if side not in ("src", "tgt"):
        raise UsageError(f"--side {side}: must be src or tgt")
    tokenizer = pair.src if side == "src" else pair.tgt
    for raw in sys.stdin.buffer:
        print(" ".join(tokenizer.tokens(tokenizer.encode(raw.decode("utf-8", "replace").rstrip("\r\n")))))

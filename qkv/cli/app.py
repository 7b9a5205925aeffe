"""The `qkv` command: its verbs, and how errors are reported as one sentence and an exit code."""

import os
import select
import sys
import traceback
import warnings
from contextlib import suppress
from typing import Any

import typer
from typer.core import TyperGroup

from qkv.cli import (
    compare,
    demo,
    doctor,
    evaluate,
    heads,
    model,
    pairs,
    score,
    serve,
    show,
    train,
    translate,
    tune,
)
from qkv.cli.ask import classify, forecast, generate, vectors
from qkv.cli.setup import config, data, pretrained, recipe, tokenizer
from qkv.cli.shared.streams import open_closed_streams
from qkv.cli.show.see import see
from qkv.core.errors import QkvError


class PlainGroup(TyperGroup):
    """A group whose option errors are reworded; typer passes on pydantic's wording."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            from pydantic import ValidationError

            if isinstance(error.__cause__, ValidationError):
                from qkv.core.wording import first_problem

                error.message = first_problem(error.__cause__)
            raise


app = typer.Typer(
    name="qkv",
    cls=PlainGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Train, decode, measure and serve Transformers and the models around them, on your own data.",
)

NO_MEMORY = "there is not enough memory; use a smaller batch (batch.tokens, batch_tokens), beam or model"


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(version("qkv"))
        raise typer.Exit


@app.callback()
def _options(
    debug: bool = typer.Option(False, "--debug", help="Show the traceback of an error."),
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show the version."),
) -> None:
    if debug:
        os.environ["QKV_DEBUG"] = "1"


app.command("init")(recipe.init)
app.command("train", cls=train.TrainCommand)(train.train)
app.command("translate")(translate.translate)
app.command("generate")(generate.generate)
app.command("perplexity")(generate.perplexity)
app.command("embed")(vectors.embed)
app.command("label")(vectors.label)
app.command("score")(score.score)
app.command("align")(score.align)
app.command("evaluate")(evaluate.evaluate)
app.command("classify")(classify.classify)
app.command("forecast")(forecast.forecast)
app.command("compare")(compare.compare)
app.command("tune")(tune.tune)
app.command("heads")(heads.heads)
app.command("see")(see)
app.command("prune")(heads.prune)
app.command("average")(model.average)
app.command("attach")(model.attach)
app.command("distill")(pairs.distill)
app.command("backtranslate")(pairs.backtranslate)
app.command("export")(model.export)
app.command("import")(model.import_)
app.command("serve")(serve.serve)
app.command("keys")(serve.keys)
app.command("demo")(demo.demo)
app.command("doctor")(doctor.doctor)
app.add_typer(show.app, name="show")
app.add_typer(tokenizer.app, name="tokenizer")
app.add_typer(data.app, name="data")
app.add_typer(config.app, name="config")
app.add_typer(recipe.app, name="recipe")
app.add_typer(pretrained.app, name="pretrained")


def main() -> None:
    """Run a verb. Exit codes: 0 done, 1 failure, 2 wrong use, 130 or 143 stopped by a signal."""
    open_closed_streams()
    warnings.formatwarning = lambda message, *place: f"{message}\n"
    try:
        try:
            app()
        finally:
            # Fail here if the output cannot be written: at interpreter exit it could no longer be reported.
            sys.stdout.flush()
    except QkvError as error:
        sys.exit(_fail(str(error), error.exit_code))
    except KeyboardInterrupt:
        sys.exit(_fail("stopped", 130))
    except SystemExit as stop:
        # typer makes a failure of a reader that went away.
        sys.exit(_unread() if isinstance(stop.__context__, BrokenPipeError) else stop.code)
    except BrokenPipeError:
        sys.exit(_unread())
    except OSError as error:
        if error.filename is None:
            _forget_output()
        sys.exit(_fail(f"{error.filename or 'standard output'}: {error.strerror or error}", 1))
    except MemoryError:
        sys.exit(_fail(NO_MEMORY, 1))
    except RuntimeError as error:
        # This is PyTorch's wording.
        if "can't allocate memory" not in str(error):
            raise
        sys.exit(_fail(NO_MEMORY, 1))


def _unread() -> int:
    """The exit code after a broken pipe: 0 if the reader of stdout has seen enough, 1 if it was stderr."""
    watch = select.poll()
    watch.register(sys.stdout.fileno(), 0)
    enough = bool(watch.poll(0))
    _forget_output()
    return 0 if enough else 1


def _forget_output() -> None:
    """Discard buffered output, so that it is not written again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(sentence: str, code: int) -> int:
    # If stderr cannot be written either, only the exit code is left.
    with suppress(OSError):
        if os.environ.get("QKV_DEBUG"):
            traceback.print_exc()
        print(f"qkv: {sentence}", file=sys.stderr)
    return code

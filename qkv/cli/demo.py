"""qkv demo"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from qkv.core.errors import CorruptFolder, DataError

if TYPE_CHECKING:
    from qkv.demo.desk import Desk
    from qkv.demo.folder import DemoFolder, Results

INVITATION = "Type words to see how the model pronounces them; an empty line or Ctrl-D quits."


def demo(
    folder: Annotated[
        Path, typer.Option(help="Where the demonstration keeps its words, its run and its model.")
    ] = Path("runs/demo"),
    minutes: Annotated[
        float, typer.Option(min=0.01, help="Minutes of training; start-up and evaluation come on top.")
    ] = 4.65,
    words: Annotated[int | None, typer.Option(min=100, help="Use only about this many words.")] = None,
    again: Annotated[bool, typer.Option("--again", help="Discard the existing model and train a new one.")] = False,
) -> None:
    """Learn to pronounce English from a dictionary in a few minutes, then pronounce what you type.

    Run again, it resumes where it stopped, or shows the model that it has trained.
    """
    typer.echo("letters to phonemes, from the CMU Pronouncing Dictionary", err=True)
    try:
        desk = _learn_and_show(folder, minutes, words, again)
    except KeyboardInterrupt:
        typer.echo("stopped; resume with the same command", err=True)
        raise typer.Exit(130) from None
    except (CorruptFolder, DataError) as error:
        raise CorruptFolder(f"{folder}: is damaged ({error}); add --again to train a new model") from error
    if sys.stdin.isatty() and sys.stdout.isatty():
        _talk(desk)


def _learn_and_show(folder: Path, minutes: float, words: int | None, again: bool) -> "Desk":
    """Everything before the prompt."""
    import shutil

    from qkv.demo.desk import Desk, Screen
    from qkv.demo.folder import DemoFolder
    from qkv.demo.report import report_lines
    from qkv.visual.alignment.text import shades_for

    place = DemoFolder(folder)
    if again:
        place.forget()
    results = place.results()
    if results is None:
        results = _learn(place, minutes, words)
    else:
        typer.echo(f"{folder} has a trained model; add --again to train a new one", err=True)
    encoding = sys.stdout.encoding if sys.stdout else None
    desk = Desk(place, Screen(shades_for(encoding), shutil.get_terminal_size().columns))
    print("\n".join(report_lines(place, results, desk)), flush=True)
    return desk


def _learn(place: "DemoFolder", minutes: float, words: int | None) -> "Results":
    from qkv.core.progress import default_reporter

    if not place.is_trained():
        trainer = place.trainer(minutes, words)
        amount = trainer.recipe.training.stop_after.amount
        verb = "resuming training" if trainer.resuming else "training"
        typer.echo(f"{verb}, {amount:g} minutes in total; Ctrl-C stops, and the same command resumes", err=True)
        result = trainer.train()
        if not result.finished:
            typer.echo(f"stopped after update {result.updates:,}; resume with the same command", err=True)
            raise typer.Exit(result.exit_code)
    reporter = default_reporter()
    try:
        return place.measure(reporter)
    finally:
        reporter.close()


def _talk(desk: "Desk") -> None:
    """Answer lines until the user quits."""
    import io
    import termios
    from contextlib import suppress

    with suppress(ImportError):
        # Line editing and history; not every Python has it.
        import readline  # noqa: F401  # importing it is what changes `input`
    for stream in (sys.stdin, sys.stdout):
        if isinstance(stream, io.TextIOWrapper):
            # What the terminal cannot show, or typed by mistake, must not end the conversation.
            stream.reconfigure(errors="replace")
    # Discard keys that were pressed during training.
    termios.tcflush(sys.stdin, termios.TCIFLUSH)
    print(f"\n{INVITATION}")
    # Ctrl-C leaves like Ctrl-D.
    with suppress(EOFError, KeyboardInterrupt):
        while line := input("word> ").strip():
            print("\n".join(desk.answer(line)))
        return
    print()

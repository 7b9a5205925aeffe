"""Options of `evaluate`, `compare`, `tune` and `score` that name test sets and metrics, and what they mean."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from qkv.evaluation.files import EvaluationSet
    from qkv.evaluation.metrics.base import Metric

Device = Annotated[
    str,
    typer.Option("--device", help="Where the model runs: cpu, cuda, cuda:N, mps, xpu; auto: an accelerator if any."),
]
Source = Annotated[Path | None, typer.Option("--src", help="The sources, one per line.")]
References = Annotated[list[Path] | None, typer.Option("--ref", help="The references, one per line; repeatable.")]
Pairs = Annotated[Path | None, typer.Option("--tsv", help="Source, tab, reference, whatever the file is called.")]
Data = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Pairs as training reads them: .tsv, .csv, .jsonl or .parquet, .gz and .zst too, or as in a recipe: "
        "'{kind: jsonl, path: FILE, src: de, tgt: en}'. The same source again is another reference.",
    ),
]
Split = Annotated[
    Literal["test", "dev"] | None, typer.Option(help="Of a run's own data, only this (without --data, --ref, --tsv).")
]
Metrics = Annotated[
    str | None,
    typer.Option(
        help="With commas, by default what fits the references. "
        "Translation: bleu, chrf, ter, bleu_tok_lc (BLEU of papers on Multi30k, with --lang). "
        "Errors: wer (words), cer (characters), exact (outputs that are right). "
        "Pronunciation: g2p_wer (words that are wrong), per (phonemes)."
    ),
]
Language = Annotated[
    str | None,
    typer.Option(
        "--lang", help="Language of the references, for bleu_tok_lc; of a run's own data, that of its recipe."
    ),
]


def given_test_set(
    ref: list[Path] | None, src: Path | None, tsv: Path | None, data: str | None, split: str | None
) -> "EvaluationSet | None":
    """The test set that the options name; None if they name none. Warnings go to stderr."""
    from qkv.core.errors import UsageError
    from qkv.evaluation.files import read_evaluation_set

    if not (ref or src or tsv or data):
        return None
    if split is not None:
        raise UsageError("--split: chooses from a run's own data, but other data is given; leave it out")
    test = read_evaluation_set(ref or [], src, tsv, data)
    for remark in test.remarks:
        typer.echo(remark, err=True)
    return test


def own_tests(model: Path, split: str | None) -> dict[str, "EvaluationSet"]:
    """The test and dev data of a run's recipe, or the one that is asked for; says on stderr which files these are."""
    from qkv.training.setup.own_data import SPLITS, own_test_sets

    found = own_test_sets(model, SPLITS if split is None else [split])
    for name, test in found.items():
        typer.echo(f"{name} data of {model}: {test.name}", err=True)
    return found


def own_test(models: list[Path], split: str | None) -> "EvaluationSet":
    """One test set for several systems: the first of `own_tests` of the first run among them."""
    from qkv.core.errors import UsageError
    from qkv.training.setup.own_data import SPLITS, own_files, own_test_sets

    run = next((path for path in models if path.is_dir()), None)
    if run is None:
        raise UsageError("nothing to compare with: give the references by --ref FILE, or both sides by --data FILE")
    name, test = next(iter(own_test_sets(run, SPLITS if split is None else [split]).items()))
    typer.echo(f"{name} data of {run}: {test.name}", err=True)
    for other in models:
        if other != run and (named := own_files(other, name)) not in (None, test.files):
            files = " and ".join(map(str, named or [])) or "nothing"
            typer.echo(
                f"{other}: its own recipe names {files} as data.{name}; was it trained on {test.name}?",
                err=True,
            )
    return test


def choose(names: str | None, test: "EvaluationSet", language: str | None) -> list["Metric"]:
    """The metrics that were asked for, or those that fit the test set. `language` is that of --lang, if it is given."""
    from qkv.evaluation.metrics.default import default_metrics
    from qkv.evaluation.metrics.registry import choose_metrics
    from qkv.evaluation.metrics.sacre import moses_languages

    if names is not None:
        return choose_metrics([name.strip() for name in names.split(",")], language or test.language)
    if language is None and test.language is not None and test.language in moses_languages():
        # A recipe may name a language that Moses has no rules for; nobody asked for them here.
        language = test.language
    chosen = default_metrics(test.references, test.sources, language)
    typer.echo(
        f"measured: {', '.join(chosen.names)}, since {test.name} holds {chosen.why}; --metrics chooses", err=True
    )
    return choose_metrics(chosen.names, language)


def refuse_without_model(given: dict[str, object]) -> None:
    """Reject options that have no effect if nothing is decoded."""
    from qkv.core.errors import UsageError

    if idle := [name for name, value in given.items() if value]:
        raise UsageError(f"{', '.join(idle)}: only for models, but these outputs are there already; leave it out")

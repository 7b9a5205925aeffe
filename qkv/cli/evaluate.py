"""qkv evaluate"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from qkv.evaluation.files import EvaluationSet
    from qkv.evaluation.metric import Metric

EngineName = Literal["auto", "torch", "ctranslate2", "onnxruntime"]
Source = Annotated[Path | None, typer.Option("--src", help="The sources, one a line.")]
References = Annotated[list[Path] | None, typer.Option("--ref", help="The right answers, one a line; repeatable.")]
Pairs = Annotated[
    Path | None,
    typer.Option("--tsv", help="Source, tab, right answer; lines with the same source are all right answers."),
]
Metrics = Annotated[
    str | None,
    typer.Option("--metrics", help="With commas: bleu, chrf, ter, bleu_tok_lc, wer, cer, exact, g2p_wer, per."),
]
Language = Annotated[str | None, typer.Option("--lang", help="Language of the right answers, for bleu_tok_lc.")]
Engine = Annotated[EngineName, typer.Option("--engine", help="What runs the model; auto: the fastest that can.")]
Beam = Annotated[int | None, typer.Option("--beam", min=1, help="Short for search.size=N.")]
Report = Annotated[Path | None, typer.Option("--html", help="Write a report to this file.")]
Examples = Annotated[int, typer.Option("--examples", min=0, help="How many outputs each list of the report has.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def evaluate(
    model: Annotated[
        Path | None, typer.Argument(help="The folder of a model, of a run, or of an exported model.")
    ] = None,
    overrides: Annotated[list[str] | None, typer.Argument(help="Settings, such as search.size=10.")] = None,
    src: Source = None,
    ref: References = None,
    tsv: Pairs = None,
    hyp: Annotated[Path | None, typer.Option(help="Outputs to measure, one a line, in place of a model.")] = None,
    voters: Annotated[list[Path] | None, typer.Option("--with", help="Another model that votes; repeatable.")] = None,
    engine: Engine = "auto",
    beam: Beam = None,
    train: Annotated[
        Path | None, typer.Option(help="Targets of the training data, to score rare and common words apart.")
    ] = None,
    metrics: Metrics = None,
    lang: Language = None,
    out: Annotated[Path | None, typer.Option(help="Keep the outputs of the model in this file.")] = None,
    html: Report = None,
    examples: Examples = 50,
    as_json: AsJson = False,
) -> None:
    """Measure a model, or outputs that are there already: overall, by length, by rare words, one by one."""
    import json

    from qkv.cli.tables import print_tables
    from qkv.errors import UsageError
    from qkv.evaluation.as_json import evaluation_dict
    from qkv.evaluation.buckets import training_frequencies
    from qkv.evaluation.decoding import SystemOutputs
    from qkv.evaluation.evaluate import evaluate_outputs
    from qkv.evaluation.files import read_evaluation_set, read_outputs, training_targets
    from qkv.evaluation.report import evaluation_report
    from qkv.evaluation.systems import decode_outputs
    from qkv.evaluation.tables import evaluation_tables
    from qkv.files import write_atomic
    from qkv.outputs import require_writable
    from qkv.progress import default_reporter

    if (model is None) == (hyp is None):
        raise UsageError("give a model (qkv evaluate MODEL ...) or its outputs (qkv evaluate --hyp FILE ...)")
    if model is None:
        refuse_without_model({"--with": voters, "--engine": engine != "auto", "--beam": beam, "--out": out})
    require_writable({"--out": out, "--html": html}, [src, *(ref or []), tsv, hyp, train])
    test = read_evaluation_set(ref or [], src, tsv)
    chosen = choose(metrics, test, lang)
    seen = None if train is None else training_frequencies(training_targets(train, test))
    reporter = default_reporter(quiet=2.0)
    try:
        if model is not None:
            system = decode_outputs([model, *(voters or [])], test, overrides or [], beam, engine, reporter)
        else:
            assert hyp is not None
            system = SystemOutputs(read_outputs(hyp, test))
        if out is not None:
            write_atomic(out, "".join(f"{output}\n" for output in system.texts))
        found = evaluate_outputs(system.texts, test, chosen, seen, reporter, system.decoding)
    finally:
        reporter.close()
    for remark in found.remarks:
        typer.echo(remark, err=True)
    if as_json:
        print(json.dumps(evaluation_dict(found), indent=2, ensure_ascii=False))
    else:
        print_tables(evaluation_tables(found))
        print("\n".join(["", *(f"{title}: {text}" for title, text in (found.signatures | found.settings).items())]))
    if html is not None:
        write_atomic(html, evaluation_report(found, f"Evaluation of {model or hyp}", examples))


def refuse_without_model(given: dict[str, object]) -> None:
    """Options that would be without any effect where nothing is decoded."""
    from qkv.errors import UsageError

    if idle := [name for name, value in given.items() if value]:
        raise UsageError(f"{', '.join(idle)}: only for models, but these outputs are there already; leave it out")


def choose(names: str | None, test: "EvaluationSet", language: str | None) -> list["Metric"]:
    """The metrics that were asked for, or those that fit the test set."""
    from qkv.evaluation.metrics import choose_metrics

    if names is None:
        return choose_metrics(test.usual_metrics(language), language)
    return choose_metrics([name.strip() for name in names.split(",")], language)

"""qkv evaluate"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from qkv.cli.shared.evaluation_options import Data, Device, Language, Metrics, Pairs, References, Source, Split
from qkv.cli.shared.job_options import On

if TYPE_CHECKING:
    from qkv.evaluation.evaluate import Evaluation
    from qkv.evaluation.files import EvaluationSet

Engine = Annotated[
    str,
    typer.Option("--engine", help="What runs the model: torch, ctranslate2, onnxruntime; auto: the fastest that can."),
]
Beam = Annotated[int | None, typer.Option("--beam", min=1, help="Short for search.size=N.")]
Report = Annotated[Path | None, typer.Option("--html", help="Write a report to this file.")]
Examples = Annotated[int, typer.Option("--examples", min=0, help="How many outputs each list of the report has.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def evaluate(
    model: Annotated[
        Path | None, typer.Argument(help="The folder of a model, of a run, or of an exported model.")
    ] = None,
    overrides: Annotated[list[str] | None, typer.Argument(help="Settings, such as search.size=10.")] = None,
    data: Data = None,
    src: Source = None,
    ref: References = None,
    tsv: Pairs = None,
    split: Split = None,
    hyp: Annotated[Path | None, typer.Option(help="Outputs to evaluate, one per line, instead of a model.")] = None,
    ensemble: Annotated[
        list[Path] | None, typer.Option("--with", help="Another model for an ensemble; repeatable.")
    ] = None,
    engine: Engine = "auto",
    device: Device = "auto",
    beam: Beam = None,
    train: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Training data, or its targets one per line, to score words by training frequency.",
        ),
    ] = None,
    metrics: Metrics = None,
    lang: Language = None,
    out: Annotated[Path | None, typer.Option(help="Keep the outputs of the model in this file.")] = None,
    html: Report = None,
    examples: Examples = 50,
    as_json: AsJson = False,
    on: On = None,
) -> None:
    """Evaluate a model, or outputs in a file: overall, by length, by word frequency, individually.

    Without data, a run is evaluated on the test and dev data of its recipe.
    """
    from qkv.cli.ask.evaluate import asked_of, evaluate_without_texts
    from qkv.cli.shared.evaluation_options import choose, given_test_set, refuse_without_model
    from qkv.core.errors import UsageError
    from qkv.core.files import write_atomic
    from qkv.core.outputs import require_writable
    from qkv.core.progress import default_reporter
    from qkv.evaluation.buckets import training_frequencies
    from qkv.evaluation.decoding import SystemOutputs
    from qkv.evaluation.evaluate import evaluate_outputs
    from qkv.evaluation.files import read_outputs, training_targets
    from qkv.evaluation.report.page import evaluation_reports
    from qkv.evaluation.systems import decode_outputs

    if (model is None) == (hyp is None):
        raise UsageError("give a model (qkv evaluate MODEL ...) or its outputs (qkv evaluate --hyp FILE ...)")
    how = {"--engine": engine != "auto", "--device": device != "auto", "--on": on}
    asked = None if model is None else asked_of(model)
    if model is not None and asked in ("classify", "forecast", "label"):
        texts = {"--src": src, "--ref": ref, "--tsv": None if asked == "label" else tsv, "--with": ensemble}
        rest = {"--beam": beam, "--train": train, "--metrics": metrics, "--lang": lang, "--out": out, "--html": html}
        idle = {**texts, **how, **rest, "settings": overrides}
        evaluate_without_texts(model, data, tsv, split, as_json, idle)
        return
    if model is None:
        refuse_without_model({"--with": ensemble, **how, "--beam": beam, "--out": out})
    tests = _tests(model, given_test_set(ref, src, tsv, data, split), split)
    if out is not None and len(tests) > 1:
        raise UsageError(f"--out: there are several test sets ({', '.join(tests)}); choose one by --split")
    read = [path for test in tests.values() for path in test.files]
    require_writable({"--out": out, "--html": html}, [*read, hyp, None if train is None else Path(train)])
    chosen = {name: choose(metrics, test, lang) for name, test in tests.items()}
    found = {}
    reporter = default_reporter(quiet=2.0)
    try:
        for name, test in tests.items():
            seen = None if train is None else training_frequencies(training_targets(train, test))
            if model is not None:
                models = [model, *(ensemble or [])]
                system = decode_outputs(models, test, overrides or [], beam, engine, reporter, device, on)
            else:
                assert hyp is not None
                system = SystemOutputs(read_outputs(hyp, test))
            if out is not None:
                write_atomic(out, "".join(f"{output}\n" for output in system.texts))
            found[name] = evaluate_outputs(system.texts, test, chosen[name], seen, reporter, system.decoding)
    finally:
        reporter.close()
    _show(found, as_json)
    if html is not None:
        write_atomic(html, evaluation_reports(found, f"Evaluation of {model or hyp}", examples))


def _tests(model: Path | None, given: "EvaluationSet | None", split: str | None) -> dict[str, "EvaluationSet"]:
    """The test set that was given, without a name, or those that the run's recipe names."""
    from qkv.cli.shared.evaluation_options import own_tests
    from qkv.core.errors import UsageError

    if given is not None:
        return {"": given}
    if model is None:
        raise UsageError("nothing to compare with: give the references by --ref FILE, or both sides by --data FILE")
    return own_tests(model, split)


def _show(found: dict[str, "Evaluation"], as_json: bool) -> None:
    """Remarks on stderr; on stdout tables and signatures, or JSON."""
    import json

    from qkv.cli.shared.tables import print_tables
    from qkv.evaluation.report.as_json import evaluation_dict
    from qkv.evaluation.report.tables import evaluation_tables

    for name, one in found.items():
        for remark in one.remarks:
            typer.echo(f"{name}: {remark}" if name else remark, err=True)
    if as_json:
        dicts = {name: evaluation_dict(one) for name, one in found.items()}
        print(json.dumps(dicts.get("", dicts), indent=2, ensure_ascii=False))
        return
    for place, (name, one) in enumerate(found.items()):
        if place:
            print()
        print_tables(evaluation_tables(one, name))
        print("\n".join(["", *(f"{title}: {text}" for title, text in (one.signatures | one.settings).items())]))

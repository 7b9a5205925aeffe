"""qkv compare"""

from pathlib import Path
from typing import Annotated

import typer

from qkv.cli.evaluate import AsJson, Beam, Engine, Examples, Report
from qkv.cli.shared.evaluation_options import Data, Language, Metrics, Pairs, References, Source, Split


def compare(
    systems: Annotated[
        list[str],
        typer.Argument(
            help="Files of outputs or folders of models, two or more, the first is the baseline; "
            "then settings for the models, such as search.size=10."
        ),
    ],
    data: Data = None,
    src: Source = None,
    ref: References = None,
    tsv: Pairs = None,
    split: Split = None,
    engine: Engine = "auto",
    beam: Beam = None,
    metrics: Metrics = None,
    lang: Language = None,
    html: Report = None,
    examples: Examples = 50,
    as_json: AsJson = False,
) -> None:
    """Compare systems: scores side by side, with two significance tests.

    Without data, runs are compared on the test data of the first one, or on its dev data if it has no test data.
    """
    import json

    from qkv.cli.shared.evaluation_options import choose, given_test_set, own_test, refuse_without_model
    from qkv.cli.shared.tables import print_tables
    from qkv.core.errors import UsageError
    from qkv.core.files import write_atomic
    from qkv.core.outputs import require_writable
    from qkv.core.progress import default_reporter
    from qkv.evaluation.compare import compare_outputs
    from qkv.evaluation.report.as_json import comparison_dict
    from qkv.evaluation.report.page import comparison_report
    from qkv.evaluation.report.tables import comparison_tables
    from qkv.evaluation.systems import outputs_of

    overrides = [given for given in systems if "=" in given and not Path(given).exists()]
    paths = [Path(given) for given in systems if given not in overrides]
    if len(set(paths)) < max(2, len(paths)):
        raise UsageError("give two different systems or more, each once: qkv compare BASELINE OTHER ...")
    if not any(path.is_dir() for path in paths):
        refuse_without_model(dict.fromkeys(overrides, True) | {"--engine": engine != "auto", "--beam": beam})
    test = given_test_set(ref, src, tsv, data, split) or own_test(paths, split)
    require_writable({"--html": html}, [*paths, *test.files])
    chosen = choose(metrics, test, lang)
    reporter = default_reporter(quiet=2.0)
    try:
        found_of = {str(path): outputs_of(path, test, overrides, beam, engine, reporter) for path in paths}
        outputs = {name: system.texts for name, system in found_of.items()}
        decodings = {name: system.decoding for name, system in found_of.items() if system.decoding is not None}
        found = compare_outputs(outputs, test, chosen, reporter, decodings)
    finally:
        reporter.close()
    for remark in found.remarks:
        typer.echo(remark, err=True)
    if as_json:
        print(json.dumps(comparison_dict(found), indent=2, ensure_ascii=False))
    else:
        print_tables(comparison_tables(found))
        print("\n".join(["", *(f"{title}: {text}" for title, text in (found.signatures | found.settings).items())]))
    if html is not None:
        write_atomic(html, comparison_report(found, f"Comparison of {' and '.join(outputs)}", examples))

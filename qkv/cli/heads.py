"""qkv heads"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from qkv.cli.evaluate import AsJson, Report
from qkv.cli.shared.evaluation_options import Data

if TYPE_CHECKING:
    from qkv.visual.heads.corpus import HeadCorpus

Model = Annotated[Path, typer.Argument(help="The folder of a model or of a run.")]
Pairs = Annotated[int | None, typer.Option("--pairs", min=1, help="Read only so many pairs, the first ones.")]


def heads(
    model: Model,
    data: Data = None,
    pairs: Pairs = None,
    html: Report = None,
    as_json: AsJson = False,
) -> None:
    """Measure what each attention head attends to over a corpus, and how alike the heads are.

    Without data, a run is measured on the dev data of its recipe.
    """
    import json

    from qkv.cli.shared.streams import require_stdout
    from qkv.cli.shared.tables import print_tables
    from qkv.core.files import write_atomic
    from qkv.core.outputs import require_writable
    from qkv.core.progress import default_reporter
    from qkv.data.readers.named import corpus_of
    from qkv.models.saved.folder import load_model
    from qkv.visual.heads.analysis import analyze_heads
    from qkv.visual.heads.report import analysis_dict, heads_report
    from qkv.visual.heads.tables import profile_tables

    require_stdout()
    require_writable({"--html": html}, [] if data is None else corpus_of(data).files().values())
    corpus = _corpus(model, data, pairs)
    reporter = default_reporter(quiet=2.0)
    try:
        found = analyze_heads(load_model(model), corpus, reporter)
    finally:
        reporter.close()
    if as_json:
        print(json.dumps(analysis_dict(found), indent=2, ensure_ascii=False))
    else:
        print_tables(profile_tables(found))
        print("\n".join(["", *(answer for side in found.sides for answer in side.answers)]))
    if html is not None:
        write_atomic(html, heads_report(found, f"Heads of {model}"))


def _corpus(model: Path, data: str | None, pairs: int | None) -> "HeadCorpus":
    """The corpus that was given, or the dev data of the run."""
    from qkv.cli.shared.evaluation_options import own_tests
    from qkv.data.readers.named import corpus_of
    from qkv.visual.heads.corpus import HeadCorpus

    if data is not None:
        return HeadCorpus.of_files(corpus_of(data), pairs)
    test = own_tests(model, "dev")["dev"]
    assert test.sources is not None
    known = [(src, tgt) for src, answers in zip(test.sources, test.references, strict=True) for tgt in answers]
    return HeadCorpus(test.name, lambda: known, pairs)

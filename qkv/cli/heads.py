"""qkv heads and qkv prune"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from qkv.cli.evaluate import AsJson, Report
from qkv.cli.shared.evaluation_options import Data, Language, Metrics

if TYPE_CHECKING:
    from qkv.visual.heads.corpus import HeadCorpus

Model = Annotated[Path, typer.Argument(help="The folder of a model or of a run.")]
Decode = Annotated[int, typer.Option("--decode", min=1, help="How many sources are decoded for each score.")]
Pairs = Annotated[int | None, typer.Option("--pairs", min=1, help="Read only so many pairs, the first ones.")]


def heads(
    model: Model,
    data: Data = None,
    pairs: Pairs = None,
    remove: Annotated[bool, typer.Option("--remove", help="Also score outputs without each of the heads.")] = False,
    curve: Annotated[
        bool, typer.Option("--curve", help="Also remove more and more heads: by importance, confidence, at random.")
    ] = False,
    decode: Decode = 200,
    metrics: Metrics = None,
    lang: Language = None,
    html: Report = None,
    as_json: AsJson = False,
) -> None:
    """Measure what each attention head attends to over a corpus, how alike the heads are, and which of them matter.

    Without data, a run is measured on the dev data of its recipe.
    """
    import json

    from qkv.cli.shared.evaluation_options import choose
    from qkv.cli.shared.streams import require_stdout
    from qkv.cli.shared.tables import print_tables
    from qkv.core.files import write_atomic
    from qkv.core.outputs import require_writable
    from qkv.core.progress import default_reporter
    from qkv.data.readers.named import corpus_of
    from qkv.models.saved.folder import load_model
    from qkv.visual.heads.analysis import analyze_heads
    from qkv.visual.heads.removal import RemovalScorer, decoded_set, study_removal
    from qkv.visual.heads.report import analysis_dict, heads_report
    from qkv.visual.heads.tables import profile_tables, removal_tables

    require_stdout()
    require_writable({"--html": html}, [] if data is None else corpus_of(data).files().values())
    corpus = _corpus(model, data, pairs)
    reporter = default_reporter(quiet=2.0)
    try:
        saved = load_model(model)
        found = analyze_heads(saved, corpus, reporter)
        removal = None
        if remove or curve:
            test = decoded_set(corpus, decode)
            scorer = RemovalScorer(saved, test, choose(metrics, test, lang)[0])
            removal = study_removal(scorer, found.ranks, remove, curve, reporter)
    finally:
        reporter.close()
    if as_json:
        print(json.dumps(analysis_dict(found, removal), indent=2, ensure_ascii=False))
    else:
        print_tables([*profile_tables(found), *([] if removal is None else removal_tables(removal))])
        answers = [answer for side in found.sides for answer in side.answers]
        print("\n".join(["", *answers, *([] if removal is None else removal.answers)]))
    if html is not None:
        write_atomic(html, heads_report(found, f"Heads of {model}", removal))


def prune(
    model: Model,
    out: Annotated[Path, typer.Option(help="The model folder to write.")],
    left: Annotated[int | None, typer.Option("--heads", min=1, help="How many heads stay in the whole model.")] = None,
    loss: Annotated[
        float | None, typer.Option(min=0, help="Remove as many heads as cost at most so many points of the score.")
    ] = None,
    data: Data = None,
    pairs: Pairs = None,
    decode: Decode = 200,
    metrics: Metrics = None,
    lang: Language = None,
) -> None:
    """Remove the least important attention heads of a model, which becomes smaller and faster.

    Importance is measured on the data, by default the dev data of a run. One head of each attention stays. Of a model
    with gates (model.head_gates), the closed heads are removed if nothing else is said.
    """
    from qkv.cli.shared.evaluation_options import choose
    from qkv.core.errors import UsageError
    from qkv.core.progress import default_reporter
    from qkv.models.saved.folder import load_model, save_model
    from qkv.models.transformer.pruning import prune_heads, without_gates
    from qkv.visual.heads.importance import head_importance
    from qkv.visual.heads.prune import parameters, remove_down_to, remove_within, speed_ratio
    from qkv.visual.heads.removal import RemovalScorer, decoded_set

    given = load_model(model)
    saved, closed = without_gates(given)
    if (left is not None and loss is not None) or (left is loss is None and saved is given):
        raise UsageError("say how many heads stay (--heads N), or what their loss may cost (--loss 0.15)")
    corpus = _corpus(model, data, pairs)
    test = decoded_set(corpus, decode)
    scorer = RemovalScorer(saved, test, choose(metrics, test, lang)[0])
    reporter = default_reporter(quiet=2.0)
    try:
        rank = head_importance(saved, corpus, reporter)
        removed = closed
        if left is not None:
            removed = remove_down_to(saved, left, rank)
        elif loss is not None:
            removed = remove_within(scorer, loss, rank)
        pruned = prune_heads(saved, removed)
        save_model(out, pruned)
    finally:
        reporter.close()
    sizes = parameters(saved.model), parameters(pruned.model)
    print(f"removed {len(removed)} of {len(rank)} heads: {', '.join(map(str, sorted(removed))) or 'none'}")
    print(f"{sizes[1]:,} parameters instead of {sizes[0]:,}")
    print(
        f"{scorer.metric.title} {scorer.score(removed):.2f} instead of {scorer.score(()):.2f} on {len(test):,} outputs"
    )
    assert test.sources is not None
    faster = speed_ratio(saved, pruned, test.sources)
    print(f"{faster:.2f} times as many tokens a second of processor time, greedy in PyTorch")
    typer.echo(f"{out}: written", err=True)


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

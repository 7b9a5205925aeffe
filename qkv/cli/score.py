"""qkv score and qkv align: what a model makes of given pairs."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from qkv.cli.shared.alignment_options import Head, Layer, Shifted, given_head
from qkv.cli.shared.evaluation_options import Data, Device
from qkv.cli.translate import Invalid

if TYPE_CHECKING:
    from qkv.data.alignments.pharaoh import Alignment, Link
    from qkv.data.alignments.words import WordAlignment
    from qkv.translate.align import Aligner, AlignmentHead, TextPair

PAIRS_AT_ONCE = 1024
CHOSEN_ON = 500
"""Pairs that the head for an alignment is chosen on."""
IN_FIGURE = 3
"""Pairs that a figure shows."""


def score(
    model: Annotated[Path, typer.Argument(help="The folder of a model or of a run.")],
    src: Annotated[Path | None, typer.Option(help="The sources, one per line.")] = None,
    tgt: Annotated[Path | None, typer.Option(help="The targets, one per line.")] = None,
    data: Data = None,
    ensemble: Annotated[
        list[Path] | None, typer.Option("--with", help="Another model for an ensemble; repeatable.")
    ] = None,
    device: Device = "auto",
    as_json: Annotated[
        bool, typer.Option("--json", help="Give a JSON object for each pair, with every token.")
    ] = False,
    invalid_utf8: Invalid = "error",
) -> None:
    """Score given targets: for each pair the log-probability, a tab, and its mean per token."""
    import json
    import math

    from qkv.cli.shared.streams import require_stdout
    from qkv.core.devices import say_where
    from qkv.core.progress import default_reporter
    from qkv.data.batching import in_chunks
    from qkv.translate.translator import Translator

    require_stdout()
    pairs, total = _pairs(src, tgt, data, invalid_utf8)
    translator = Translator([model, *(ensemble or [])], "torch", device=device)
    reporter = default_reporter(quiet=2.0)
    say_where(reporter.say, "scoring", translator.models.device)
    counting = reporter.counting("Scoring")
    done, tokens, log_prob = 0, 0, 0.0
    try:
        for chunk in in_chunks(pairs, PAIRS_AT_ONCE):
            counting(done, total)
            for one in translator.score(chunk, done + 1):
                done += 1
                tokens += len(one.token_scores)
                log_prob += one.score
                print(
                    json.dumps({"line": done, **one.as_dict()}, ensure_ascii=False)
                    if as_json
                    else f"{one.score:.6f}\t{one.per_token:.6f}"
                )
    finally:
        reporter.close()
    if tokens:
        perplexity = math.exp(min(-log_prob / tokens, 700.0))
        typer.echo(f"{done:,} pairs, {tokens:,} tokens with END: perplexity {perplexity:.4f} per token", err=True)


def _pairs(
    src: Path | None, tgt: Path | None, data: str | None, invalid: Literal["error", "replace"]
) -> tuple[Iterator[tuple[str, str]], int | None]:
    """The pairs, and their number if it is cheap to find."""
    from qkv.core.errors import UsageError
    from qkv.data.lines import ReadCounts
    from qkv.data.readers.named import corpus_of
    from qkv.data.texts import paired, read_texts, survey

    if data is not None and src is None and tgt is None:
        return ((pair.src, pair.tgt) for pair in corpus_of(data).read(Path("."), invalid, ReadCounts())), None
    if data is not None or src is None or tgt is None:
        raise UsageError("say what to score: --src FILE and --tgt FILE, or both sides by --data FILE alone")
    return paired(read_texts(src, invalid), read_texts(tgt, invalid), (src, tgt)), survey(src).lines


def align(
    model: Annotated[Path, typer.Argument(help="The folder of a model or of a run.")],
    src: Annotated[Path, typer.Option(help="The sources, one per line.")],
    tgt: Annotated[Path, typer.Option(help="The targets, one per line.")],
    layer: Layer = None,
    head: Head = None,
    shifted: Shifted = False,
    gold: Annotated[
        Path | None, typer.Option(help="True links (possible ones: 1?2): choose the head by them, and give the AER.")
    ] = None,
    style: Annotated[
        Literal["pharaoh", "matrix"], typer.Option("--format", help="Links (0-0 1-2), or the weights as a drawing.")
    ] = "pharaoh",
    figure: Annotated[
        Path | None, typer.Option(help="Also draw the first pairs, to this file: .svg, .png or .pdf.")
    ] = None,
    invalid_utf8: Invalid = "error",
) -> None:
    """Align the words of given pairs by the attention of a model: a line of links for each pair."""
    from qkv.cli.shared.streams import require_stdout
    from qkv.core.outputs import require_writable
    from qkv.core.progress import default_reporter
    from qkv.data.batching import in_chunks
    from qkv.data.texts import paired, read_texts
    from qkv.evaluation.alignment import score_alignments
    from qkv.translate.align import Aligner
    from qkv.visual.figures.alignment import alignment_figure

    given = given_head(layer, head, shifted, "then they and the step are chosen")
    require_writable({"--figure": figure}, [src, tgt, gold])
    require_stdout()
    pairs = list(paired(read_texts(src, invalid_utf8), read_texts(tgt, invalid_utf8), (src, tgt)))
    truth = None if gold is None else _truth(gold, len(pairs))
    aligner = Aligner(model)
    chosen = given or _best_head(aligner, pairs[:CHOSEN_ON], truth)
    reporter = default_reporter(quiet=2.0)
    counting = reporter.counting("Aligning")
    links: list[frozenset[Link]] = []
    drawn: dict[str, WordAlignment] = {}
    try:
        for chunk in in_chunks(pairs, PAIRS_AT_ONCE):
            counting(len(links), len(pairs))
            for one in aligner.align(chunk, chosen, len(links) + 1):
                print(_formatted(one, style))
                links.append(one.links)
                if len(drawn) < IN_FIGURE:
                    drawn[f"pair {len(links)}"] = one
    finally:
        reporter.close()
    if truth is not None:
        typer.echo(str(score_alignments(links, truth)), err=True)
    if figure is not None:
        alignment_figure(drawn, f"Attention: {chosen}").write(figure)


def _truth(gold: Path, pairs: int) -> "list[Alignment]":
    from qkv.core.errors import DataError
    from qkv.data.alignments.pharaoh import read_alignments

    truth = list(read_alignments(gold))
    if len(truth) != pairs:
        raise DataError(f"{gold}: has {len(truth):,} lines, but there are {pairs:,} pairs; give a line for each")
    return truth


def _best_head(aligner: "Aligner", pairs: "Sequence[TextPair]", truth: "list[Alignment] | None") -> "AlignmentHead":
    """The one that is best on `pairs`, which is named on stderr."""
    from qkv.evaluation.alignment import best_head

    chosen = best_head(aligner, pairs, None if truth is None else truth[: len(pairs)])
    step = " --shifted" if chosen.shifted else ""
    typer.echo(f"chosen: {chosen} (--layer {chosen.layer} --head {chosen.head}{step})", err=True)
    return chosen


def _formatted(alignment: "WordAlignment", style: str) -> str:
    from qkv.data.alignments.pharaoh import format_links
    from qkv.visual.alignment.text import draw_words

    return format_links(alignment.links) if style == "pharaoh" else draw_words(alignment)

"""qkv score"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import typer

from qkv.cli.shared.evaluation_options import Data
from qkv.cli.translate import Invalid

PAIRS_AT_ONCE = 1024


def score(
    model: Annotated[Path, typer.Argument(help="The folder of a model or of a run.")],
    src: Annotated[Path | None, typer.Option(help="The sources, one per line.")] = None,
    tgt: Annotated[Path | None, typer.Option(help="The targets, one per line.")] = None,
    data: Data = None,
    ensemble: Annotated[
        list[Path] | None, typer.Option("--with", help="Another model for an ensemble; repeatable.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Give a JSON object for each pair, with every token.")
    ] = False,
    invalid_utf8: Invalid = "error",
) -> None:
    """Score given targets: for each pair the log-probability, a tab, and its mean per token."""
    import json
    import math

    from qkv.cli.shared.streams import require_stdout
    from qkv.core.progress import default_reporter
    from qkv.data.batching import in_chunks
    from qkv.translate.translator import Translator

    require_stdout()
    pairs, total = _pairs(src, tgt, data, invalid_utf8)
    translator = Translator([model, *(ensemble or [])], "torch")
    reporter = default_reporter(quiet=2.0)
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

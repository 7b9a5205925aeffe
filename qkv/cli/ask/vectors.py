"""qkv embed and qkv label"""

from pathlib import Path
from typing import Annotated, Literal

import typer

from qkv.cli.shared.job_options import Column, On, Restart, RowsPerShard, Workers

Invalid = Annotated[Literal["error", "replace"], typer.Option(help="How to handle invalid UTF-8.")]
AT_ONCE = 64


def embed(
    model: Annotated[Path, typer.Argument(help="The folder of a model with a text encoder, or of its run.")],
    given: Annotated[
        str | None, typer.Option("--input", help="Read this file instead of standard input.", metavar="FILE")
    ] = None,
    written: Annotated[
        str | None, typer.Option("--output", help="Write this file instead of standard output.", metavar="FILE")
    ] = None,
    pooling: Annotated[
        Literal["mean", "first", "tokens"],
        typer.Option(help="A vector for each text, the mean or the first of its states; or one for each token."),
    ] = "mean",
    normalize: Annotated[bool, typer.Option("--normalize", help="Vectors of length 1.")] = False,
    form: Annotated[
        Literal["jsonl", "npy"], typer.Option("--format", help="A JSON object a line, or a NumPy array with --output.")
    ] = "jsonl",
    invalid_utf8: Invalid = "error",
    on: On = None,
    column: Column = "src",
    rows_per_shard: RowsPerShard = 2048,
    workers: Workers = None,
    restart: Restart = False,
) -> None:
    """Write vectors of texts, one text per line: the states of the model's encoder."""
    import json
    import sys

    import numpy as np
    import torch

    from qkv.cli.shared.streams import require_stdout
    from qkv.core.errors import UsageError
    from qkv.core.outputs import require_writable
    from qkv.core.progress import default_reporter
    from qkv.data.batching import in_chunks
    from qkv.data.texts import read_texts, stream_texts
    from qkv.translate.ask.vectors import TextVectors
    from qkv.translate.cluster.embedding import embed_files
    from qkv.translate.cluster.job import JobOptions

    if on is not None:
        if pooling == "tokens" or form == "npy":
            raise UsageError("--on ray: writes one vector a text as JSON lines or Parquet; leave out tokens and npy")
        if given is None or written is None:
            raise UsageError(f"--on {on}: give --input FILES and --output DIR")
        job = JobOptions(column, rows_per_shard, invalid_utf8)
        reporter = default_reporter(quiet=2.0)
        try:
            embed_files(on, workers, (model, pooling, normalize), given, written, job, restart, reporter)
        finally:
            reporter.close()
        return
    source, output = (None if name is None else Path(name) for name in (given, written))
    if form == "npy" and output is None:
        raise UsageError("--format npy needs --output FILE; JSON lines can go to standard output")
    require_writable({"--output": output}, [source])
    if output is None:
        require_stdout()
    vectors = TextVectors(model)
    texts = stream_texts(sys.stdin.buffer, invalid_utf8) if source is None else read_texts(source, invalid_utf8)
    reporter = default_reporter(quiet=2.0)
    counting, done, cut = reporter.counting("Encoding"), 0, 0
    arrays = []
    lines = sys.stdout if output is None or form == "npy" else output.open("w", encoding="utf-8")
    try:
        for some in in_chunks(texts, AT_ONCE):
            for text, own in zip(some, vectors.encode(some), strict=True):
                states = own.pooled(pooling, normalize)
                cut += own.cut
                if form == "npy":
                    arrays.append(states)
                    continue
                tokens = {"tokens": own.tokens, "vectors": states.tolist()}
                record = tokens if pooling == "tokens" else {"text": text, "vector": states[0].tolist()}
                print(json.dumps(record, ensure_ascii=False), file=lines)
            done += len(some)
            counting(done, None)
        if form == "npy":
            assert output is not None
            with output.open("wb") as file:
                np.save(file, torch.cat(arrays).numpy() if arrays else np.zeros((0, 0), np.float32))
    finally:
        if lines is not sys.stdout:
            lines.close()
        reporter.close()
    if cut:
        typer.echo(f"{cut:,} of {done:,} texts were longer than the model's positions and were cut", err=True)


def label(
    model: Annotated[Path, typer.Argument(help="The folder of a classifier or tagger, or of its run.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object for each text.")] = False,
    invalid_utf8: Invalid = "error",
) -> None:
    """Write the label of each line of standard input, or the tags of its words."""
    import json
    import sys
    from dataclasses import asdict

    from qkv.cli.shared.streams import require_stdout
    from qkv.data.batching import in_chunks
    from qkv.data.texts import stream_texts
    from qkv.models.asked import require_asked
    from qkv.models.saved.folder import load_model
    from qkv.translate.ask.labelling import predicted_labels

    require_stdout()
    saved = load_model(model)
    require_asked(saved.config.model, "label", model)
    at_once = 1 if sys.stdin.isatty() else AT_ONCE
    for some in in_chunks(stream_texts(sys.stdin.buffer, invalid_utf8), at_once):
        for found in predicted_labels(saved.model, saved.tokenizers, some):
            print(json.dumps(asdict(found), ensure_ascii=False) if as_json else found.text, flush=True)

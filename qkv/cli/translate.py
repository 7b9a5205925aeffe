"""qkv translate"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from qkv.cli.shared.alignment_options import Head, Layer, Shifted, given_head
from qkv.cli.shared.evaluation_options import Device
from qkv.cli.shared.job_options import Column, On, RowsPerShard

if TYPE_CHECKING:
    from qkv.core.progress import Reporter
    from qkv.translate.output import Formatter

Invalid = Annotated[Literal["error", "replace"], typer.Option(help="How to handle invalid UTF-8.")]


def translate(
    model: Annotated[Path, typer.Argument(help="The folder of a model, of a run, or of an exported model.")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Settings, such as search.size=10.")] = None,
    given: Annotated[
        str | None,
        typer.Option("--input", metavar="FILE", help="Read this file instead of standard input; with --on, files."),
    ] = None,
    written: Annotated[
        str | None,
        typer.Option(
            "--output",
            metavar="FILE",
            help="Write this file, with --input; the same command again resumes a stopped job. With --on, a folder.",
        ),
    ] = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Start the job of --output again from the first line.")
    ] = False,
    on: On = None,
    column: Column = "src",
    rows_per_shard: RowsPerShard = 2048,
    ensemble: Annotated[
        list[Path] | None, typer.Option("--with", help="Another model for an ensemble; repeatable.")
    ] = None,
    engine: Annotated[
        str,
        typer.Option(help="What runs the model: torch, ctranslate2, onnxruntime; auto: the fastest that can."),
    ] = "auto",
    device: Device = "auto",
    precision: Annotated[
        Literal["fp32", "fp16", "bf16"],
        typer.Option(help="Of weights and activations, for accelerators; scores are in float32 always."),
    ] = "fp32",
    static_shapes: Annotated[
        bool, typer.Option("--static-shapes", help="Tensors of fixed shapes, which a CUDA device replays as a graph.")
    ] = False,
    beam: Annotated[int | None, typer.Option(min=1, help="Short for search.size=N.")] = None,
    draft: Annotated[
        str,
        typer.Option(
            metavar="MODEL|jacobi|input|own|none",
            help="Speculative decoding for greedy search, with the same output: the drafter; auto: the model's own.",
        ),
    ] = "auto",
    length_factor: Annotated[
        float | None, typer.Option(help="Short for search.length_factor=F: outputs F times as long as by default.")
    ] = None,
    nbest: Annotated[
        int | None, typer.Option(min=1, help="Print this many outputs per line: line number, rank, score, text.")
    ] = None,
    scores: Annotated[bool, typer.Option("--scores", help="Give score and text.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Give a JSON object for each line.")] = False,
    alignment: Annotated[
        Literal["weights", "pharaoh", "matrix"] | None,
        typer.Option(help="Add links of words (pharaoh), a drawing (matrix), or with --json the weights of tokens."),
    ] = None,
    layer: Layer = None,
    head: Head = None,
    shifted: Shifted = False,
    copies: Annotated[
        bool, typer.Option("--copies", help="Add which tokens were copied, and from where, with --json.")
    ] = False,
    prefixes: Annotated[
        Path | None, typer.Option("--prefix-file", help="A file with the prefix of each output, line by line.")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; default: one for each core.")] = None,
    invalid_utf8: Invalid = "error",
) -> None:
    """Translate standard input, line by line."""
    from qkv.cli.shared.streams import require_stdout
    from qkv.core.devices import say_where
    from qkv.core.errors import UsageError
    from qkv.core.outputs import require_writable
    from qkv.data.texts import STDIN
    from qkv.kernels.memory import keep_freed_memory
    from qkv.search.beam import BeamConfig
    from qkv.translate.cluster.job import JobOptions
    from qkv.translate.cluster.translating import translate_files
    from qkv.translate.jobs.line_work import LineWork, read_sources
    from qkv.translate.settings import translation_config, with_beam, with_draft
    from qkv.translate.texts import DecodeOptions

    if (alignment == "weights") != (alignment is not None and as_json):
        raise UsageError("--alignment weights goes with --json, and pharaoh and matrix go without it")
    if alignment and not as_json and (nbest is not None or scores):
        raise UsageError(f"--alignment {alignment} is written behind the text alone; leave out --nbest and --scores")
    chosen = given_head(layer, head, shifted, "then it is the mean over the heads of the last layer")
    if chosen is not None and alignment is None:
        raise UsageError("--layer and --head say where an alignment is read; add --alignment pharaoh")
    if chosen is not None and ensemble:
        raise UsageError("--layer and --head are those of one model; leave out --with")
    if copies and not as_json:
        raise UsageError("--copies is written as JSON only; add --json")
    if on is not None and not (given and written):
        raise UsageError(f"--on {on}: give --input FILES and --output DIR")
    if on is not None and prefixes is not None:
        raise UsageError(f"--on {on}: reads no --prefix-file; leave out one of them")
    source, output = (None if name is None else Path(name) for name in (given, written))
    if output and not source:
        raise UsageError("--output needs --input FILE, so that the job can be taken up again; else write > FILE")
    if on is None:
        require_writable({"--output": output}, [source, prefixes])
    if output is None:
        require_stdout()
    keep_freed_memory()
    settings = [*(overrides or []), *([f"search.length_factor={length_factor}"] if length_factor is not None else [])]
    config = translation_config(with_beam(with_draft(settings, draft), beam, model), model)
    search = config.search
    if nbest is not None and isinstance(search, BeamConfig) and nbest > search.size:
        raise UsageError(
            f"--nbest {nbest}: a beam of size {search.size} cannot give {nbest} hypotheses; add --beam {nbest}"
        )
    here: int | Literal["auto"] = "auto" if on else workers or "auto"
    translator = config.translator([model, *(ensemble or [])], engine, here, draft, device, precision, static_shapes)
    options = DecodeOptions(
        nbest or 1, chosen or alignment is not None, token_scores=as_json, prefixes=prefixes is not None, copies=copies
    )
    reporter = _reporter(output)
    say_where(reporter.say, "decoding", translator.models.device)
    work = LineWork(translator, options, _formatter(as_json, nbest, scores, alignment), str(source or STDIN), reporter)
    try:
        if on is not None and given and written:
            job = JobOptions(column, rows_per_shard, invalid_utf8)
            translate_files(on, workers, work, given, written, job, restart)
        elif source and output:
            files = {"input": source} | ({"prefix file": prefixes} if prefixes else {})
            work.to_file(read_sources(source, prefixes, invalid_utf8), output, files, restart)
        else:
            work.to_stdout(read_sources(source, prefixes, invalid_utf8), source)
    finally:
        reporter.close()


def _formatter(as_json: bool, nbest: int | None, scores: bool, alignment: str | None) -> "Formatter":
    from qkv.translate import output
    from qkv.visual.alignment.text import with_matrix

    if as_json:
        return output.as_json
    if alignment is not None:
        return output.with_links if alignment == "pharaoh" else with_matrix
    if nbest is not None:
        return output.table
    return output.with_score if scores else output.plain


def _reporter(output: Path | None) -> "Reporter":
    """No bar where the translations themselves appear on the screen."""
    import math
    import sys

    from qkv.core.progress import PlainReporter, default_reporter

    on_screen = output is None and sys.stdout.isatty()
    return PlainReporter(quiet=math.inf) if on_screen else default_reporter(quiet=2.0)

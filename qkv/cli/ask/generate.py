"""qkv generate and qkv perplexity"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import typer


def generate(
    model: Annotated[Path, typer.Argument(help="The folder of a causal_lm or of its run.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Settings, such as search.kind=beam or search.top_p=0.9.")
    ] = None,
    prompt: Annotated[
        list[str] | None, typer.Option(help="A text to continue; repeatable. Without it, each line of standard input.")
    ] = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="The most tokens of a continuation.")] = 64,
    nbest: Annotated[int, typer.Option(min=1, help="Print this many texts for each prompt.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object for each text.")] = False,
    invalid_utf8: Annotated[Literal["error", "replace"], typer.Option(help="How to handle invalid UTF-8.")] = "error",
) -> None:
    """Continue texts: a line out for each line in."""
    import json
    import sys
    from dataclasses import asdict

    from qkv.cli.shared.streams import require_stdout
    from qkv.config import with_overrides
    from qkv.data.texts import stream_texts
    from qkv.translate.ask.generate import AT_ONCE, GenerationConfig, Generator

    require_stdout()
    config = with_overrides(GenerationConfig, {"max_tokens": max_tokens}, overrides or [], "command line")
    generator = Generator(model, config.search, config.max_tokens)
    prompts = iter(prompt) if prompt else stream_texts(sys.stdin.buffer, invalid_utf8)
    at_once = 1 if sys.stdin.isatty() else AT_ONCE
    for found in generator.stream(prompts, nbest, at_once):
        for one in found:
            text = one.text.replace("\\", "\\\\").replace("\n", "\\n") if "\n" in one.text else one.text
            print(json.dumps(asdict(one), ensure_ascii=False) if as_json else text, flush=True)


def perplexity(
    model: Annotated[Path, typer.Argument(help="The folder of a causal_lm or of its run.")],
    file: Annotated[Path, typer.Argument(help="The texts, one per line.")],
    whole: Annotated[bool, typer.Option("--whole", help="The file is one text.")] = False,
    window: Annotated[
        int | None, typer.Option(min=1, help="The most tokens that are read at once; default: the model's positions.")
    ] = None,
    stride: Annotated[
        int | None, typer.Option(min=1, help="How far a window moves over a longer text; default: half a window.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure perplexity and bits per byte of texts by a sliding window."""
    import json

    from qkv.core.progress import default_reporter
    from qkv.data.texts import read_texts
    from qkv.evaluation.perplexity import measure_perplexity
    from qkv.models.asked import require_asked
    from qkv.models.saved.folder import load_model

    saved = load_model(model)
    require_asked(saved.config.model, "generate", model)
    lines = (text for text in read_texts(file) if text.strip())
    reporter = default_reporter(quiet=2.0)
    counting = reporter.counting("Reading")

    def counted() -> Iterator[str]:
        for number, text in enumerate(["\n".join(lines)] if whole else lines, start=1):
            counting(number, None)
            yield text

    try:
        found = measure_perplexity(saved, counted(), window, stride)
    finally:
        reporter.close()
    if as_json:
        print(json.dumps(found.as_dict(), indent=2))
        return
    print(f"perplexity {found.perplexity:.4g} of {found.tokens:,} tokens in {found.texts:,} texts")
    print(f"{found.bits_per_byte:.4f} bits per byte")
    if found.unknown:
        print(f"{found.unknown:,} tokens are unknown, so bits per byte cannot be compared")

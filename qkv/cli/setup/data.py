"""qkv data"""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Look at the data before training on it.")


@app.command("check")
def check(
    recipe: Annotated[Path, typer.Argument(help="The recipe: a YAML file, or a name of qkv recipe list.")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Changes, as key.sub=value.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Sizes, lengths, unknown tokens, duplicates, overlap of train and test, and samples as the model sees them."""
    import json

    from qkv.core.progress import default_reporter
    from qkv.recipes import load_recipe
    from qkv.training.setup.inspect_data import inspect_data

    reporter = default_reporter()
    try:
        report = inspect_data(load_recipe(recipe, overrides or []), reporter.counting)
    finally:
        reporter.close()
    print(json.dumps(report.as_dict(), indent=2, ensure_ascii=False) if as_json else report.render().rstrip("\n"))


@app.command("modality")
def modality(
    src: Annotated[Path, typer.Option(help="The sources, one per line.")],
    tgt: Annotated[Path, typer.Option(help="The targets, one per line.")],
    tokenizers: Annotated[
        Path | None,
        typer.Option(
            help="Count the tokens of these tokenizers (a run's tokenizer/), not lower-cased words and punctuation."
        ),
    ] = None,
    pairs: Annotated[int, typer.Option(min=1, help="Use this many pairs, evenly spread.")] = 100_000,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure the modality of the targets: the entropy of a target word given its source word."""
    import json

    from qkv.data.texts import paired, read_texts, survey
    from qkv.evaluation.modality import measure, spread_texts, token_words
    from qkv.text import load_tokenizers

    both = paired(read_texts(src), read_texts(tgt), (src, tgt))
    chosen = spread_texts(both, survey(src).lines, pairs)
    found = measure(chosen, *token_words(load_tokenizers(tokenizers) if tokenizers else None))
    if as_json:
        print(json.dumps(found.as_dict(), indent=2))
        return
    unit = "tokens" if tokenizers else "words"
    aligned = f"{found.aligned_src_words:,} of them aligned"
    print(f"{found.pairs:,} pairs, {found.src_words:,} different source {unit}, {aligned}")
    if found.left_out:
        print(f"{found.left_out:,} pairs left out: empty, or too long")
    print(f"mean entropy of an aligned source {unit[:-1]}: {found.mean_entropy:.3f} bits")
    print(f"entropy of a link: {found.entropy:.3f} bits, as of {found.perplexity:.2f} equally likely {unit}")
    print(f"target {unit} without a source {unit[:-1]}: {found.unaligned:.1%}")

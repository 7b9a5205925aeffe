"""qkv export"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from qkv.interop.export import Check
    from qkv.progress import Reporter


def export(
    model: Annotated[Path, typer.Argument(help="The folder of a model or of a run.")],
    to: Annotated[str, typer.Option(help="ctranslate2 or onnx (decode faster), or huggingface (transformers).")],
    out: Annotated[Path, typer.Option(help="The folder to write; an earlier export there is replaced.")],
    quantization: Annotated[
        str | None, typer.Option(help="How ctranslate2 or onnx store weights, for example int8; float32 without it.")
    ] = None,
    sample: Annotated[
        Path | None,
        typer.Option(
            help="Sources, one a line, on which a quantised model is compared with float32; by default dev sources of "
            "the run, or random ones."
        ),
    ] = None,
) -> None:
    """Write a model in the format of another program."""
    from qkv.interop.export import export_model
    from qkv.progress import default_reporter

    reporter = default_reporter()
    try:
        reporter.counting("Exporting")(0, None)
        texts = sample_texts(model, sample)
        check = _comparison(to, quantization, texts, reporter)
        size = export_model(model, to, out, quantization, check)
        if to == "ctranslate2" and quantization in (None, "float32"):
            compare_search(model, out, texts, reporter)
    finally:
        reporter.close()
    typer.echo(f"{out}: written for {to}{f' in {quantization}' if quantization else ''}, {size / 1e6:.1f} MB", err=True)


def sample_texts(model: Path, sample: Path | None) -> list[str] | None:
    """Sources from the file that was named, or from the dev data of the run; None: there are none."""
    from itertools import islice

    from qkv.data.store import PairStore
    from qkv.decoding.agreement import SOURCES
    from qkv.decoding.line_work import read_sources
    from qkv.errors import CorruptFolder, UsageError
    from qkv.training.run_folder import RunFolder

    if sample is not None:
        texts = (source.text for source in read_sources(sample, None, "error"))
        if not (found := list(islice(filter(str.strip, texts), SOURCES))):
            raise UsageError(f"{sample}: has no source; give a file with one source a line, or leave out --sample")
        return found
    try:
        store = PairStore.open(RunFolder(model).dev_data)
    except CorruptFolder:
        # Not a run, or one whose data was removed.
        return None
    count = min(len(store), SOURCES)
    return [src for src, _ in store.read([number * len(store) // count for number in range(count)])]


def _comparison(to: str, quantization: str | None, texts: Sequence[str] | None, reporter: "Reporter") -> "Check":
    """What compares a quantised export with its model, says how far they agree, and refuses noise."""
    from qkv.decoding.agreement import agreement, sample_sources
    from qkv.decoding.fast_engines import FAST, missing_packages
    from qkv.decoding.model_set import EXPORTS
    from qkv.models.folder import SavedModel

    def compare(saved: SavedModel, folder: Path) -> None:
        fast = FAST[EXPORTS[to]]
        if missing := missing_packages(fast, exported=True):
            reporter.say(f"not compared with float32, because {fast.name} cannot run here: {missing[0]}")
            return
        engine = fast.open(folder, 1)
        sources = sample_sources(saved, texts, engine.src_limit)
        found = agreement(saved, engine, sources, reporter.counting("Comparing with float32"))
        found.refuse_noise(str(quantization))
        kind = "random sources" if texts is None else "sources"
        reporter.say(f"{quantization} compared with float32 on {len(sources)} {kind}: {found}")

    return compare


def compare_search(model: Path, out: Path, texts: Sequence[str] | None, reporter: "Reporter") -> None:
    """Say so if the usual search finds worse outputs in the export than in the model."""
    from qkv.decoding.agreement import sample_sources
    from qkv.decoding.engine import DecodeRequest
    from qkv.decoding.fast_engines import FAST, missing_packages
    from qkv.decoding.shortfall import mean_scores
    from qkv.decoding.torch_engine import TorchEngine
    from qkv.decoding.usual import usual_search
    from qkv.models.folder import load_model
    from qkv.models.locate import locate_model

    saved, fast = load_model(locate_model(model)), FAST["ctranslate2"]
    request = DecodeRequest(usual_search(saved.config).within(saved.config.length_limit), 1, [])
    if missing_packages(fast, exported=True) or not fast.approximates(request):
        return
    engine = fast.open(out, 1)
    scores = mean_scores(engine, TorchEngine([saved.model]), sample_sources(saved, texts, engine.src_limit), request)
    if scores.worse:
        reporter.say(f"{out}: its beam search is worse than torch's ({scores}); decode with search.stop=exact")

"""Every way to decode side by side, in one run: how good, how fast for one text, how fast in batches, how many passes.

    python benchmarks/decoding_kinds.py AR_MODEL --nat ctc=DIR --nat distilled=DIR [--draft jacobi --draft input ...] \
        (--src FILE --ref FILE | --tsv FILE) --metric bleu_tok_lc [--lang de] --out DIR

The first row, greedy search of AR_MODEL in PyTorch, is what the others are measured against. Quality comes with the
package's own tests of significance. For one text: every `--texts`-th part of the test set alone, by one thread, all
systems in turn on the same text, the least of `--repeats` times each; told are the median and the median of the ratios.
In batches: the whole test set, all cores, systems in turn, the median of `--rounds`. DIR gets decoding_kinds.jsonl, .md
and .svg. Non-autoregressive models run in PyTorch and, where their kind has a form there, in ONNX Runtime (float32,
int8), greedy search in CTranslate2, too. All fill their canvas once, `mask_predict` also in four and in ten passes.
`--rescore` adds a row in which AR_MODEL chooses among ten outputs of a beam (ctc) or five lengths (nat, mask_predict).
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import mean, median

from qkv.config import load_config
from qkv.engines.fast_engines import EngineName
from qkv.evaluation.compare import compare_outputs, verdict
from qkv.evaluation.files import EvaluationSet, read_evaluation_set
from qkv.evaluation.metrics.base import Metric
from qkv.evaluation.metrics.registry import choose_metrics
from qkv.export.folder import export_model
from qkv.export.onnx import onnx_obstacles
from qkv.kernels.threads import using_threads
from qkv.models.saved.folder import CONFIG, SavedConfig
from qkv.models.saved.locate import locate_model
from qkv.models.transformer.config import TransformerConfig
from qkv.search.base import SearchConfig
from qkv.search.beam import BeamConfig
from qkv.search.greedy import GreedyConfig
from qkv.search.refinement.ctc import CtcReaderConfig
from qkv.search.refinement.search import RefineConfig
from qkv.search.speculative.drafting import DraftLike
from qkv.translate.output import Translation
from qkv.translate.translator import Translator
from qkv.visual.charts import Point, draw_points

BASELINE = "greedy"
GREEDY = GreedyConfig()
ENGINES = ("torch", "onnxruntime", "int8")
CHOICES = {
    "ctc": RefineConfig(),
    "nat": RefineConfig(length_beam=5),
    "mask_predict": RefineConfig(length_beam=5),
}
"""How each kind of model gives several outputs."""


@dataclass(frozen=True)
class System:
    """A model and the way it is decoded."""

    name: str
    group: str
    """Autoregressive, speculative, or the name of a non-autoregressive model."""
    model: Path
    engine: EngineName
    search: SearchConfig | None = None
    draft: DraftLike = None

    def translator(self, workers: int | None = None) -> Translator:
        return Translator(self.model, self.engine, self.search, workers or "auto", draft=self.draft)


@dataclass(frozen=True)
class Row:
    """What one system gave."""

    system: str
    group: str
    score: float
    low: float
    high: float
    verdict: str
    differ: int
    """Outputs that are not those of the baseline."""
    one_ms: float
    one_ratio: float
    batch_per_second: float
    batch_ratio: float
    passes: float
    """Of a text alone."""


@dataclass(frozen=True)
class OnePass:
    """How non-autoregressive models are decoded."""

    engines: Sequence[str]
    judge: Path | None
    """Chooses among several outputs, if there is one."""
    blank_penalty: float
    """Of ctc."""


def systems_of(
    model: Path, nats: dict[str, Path], drafts: Sequence[str], scratch: Path, how: OnePass
) -> Iterator[System]:
    """All of them; int8 models are exported into `scratch`."""
    yield System(BASELINE, "autoregressive", model, "torch", GREEDY)
    yield System("beam 5", "autoregressive", model, "torch", BeamConfig(size=5))
    yield System("greedy, ctranslate2", "autoregressive", model, "ctranslate2", GREEDY)
    export_model(model, "ctranslate2", scratch / "ct2-int8", "int8")
    yield System("greedy, ctranslate2 int8", "autoregressive", scratch / "ct2-int8", "auto", GREEDY)
    for draft in drafts:
        yield System(f"greedy, draft {Path(draft).name}", "speculative", model, "torch", GREEDY, draft)
    for name, folder in nats.items():
        yield from _one_model(name, folder, scratch, how)


def _one_model(name: str, folder: Path, scratch: Path, how: OnePass) -> Iterator[System]:
    config = load_config(SavedConfig, locate_model(folder) / CONFIG)
    assert isinstance(config.model, TransformerConfig)
    kind = config.model.decoder.kind
    reader = CtcReaderConfig(blank_penalty=how.blank_penalty) if kind == "ctc" else None
    once = RefineConfig(passes=1, reader=reader)
    if "torch" in how.engines:
        yield System(f"{name}, torch", name, folder, "torch", once)
        if kind == "mask_predict":
            for passes in (4, 10):
                yield System(f"{name}, {passes} passes", name, folder, "torch", RefineConfig(passes=passes))
    if how.judge is not None and kind in CHOICES:
        wider = CtcReaderConfig(beam=10, blank_penalty=how.blank_penalty) if kind == "ctc" else None
        search = CHOICES[kind].model_copy(update={"rescore": how.judge, "reader": wider})
        yield System(f"{name}, rescored", name, folder, "torch", search)
    if onnx_obstacles(config):
        return
    if "onnxruntime" in how.engines:
        yield System(f"{name}, onnxruntime", name, folder, "onnxruntime", once)
    if "int8" in how.engines:
        export_model(folder, "onnx", scratch / name, "int8")
        yield System(f"{name}, onnxruntime int8", name, scratch / name, "auto", once)


@dataclass(frozen=True)
class Alone:
    """Of each text."""

    ms: list[float] = field(default_factory=list)
    passes: list[int] = field(default_factory=list)


def one_at_a_time(systems: Sequence[System], texts: Sequence[str], repeats: int) -> dict[str, Alone]:
    """What each system took, by one thread; the systems take turns on every text."""
    found = {system.name: Alone() for system in systems}
    with using_threads(1):
        translators = {system.name: system.translator(workers=1) for system in systems}
        for translator in translators.values():
            translator.translate(list(texts[:4]), token_scores=False)
        for text in texts:
            turns = [
                {name: _seconds(translator, [text]) for name, translator in translators.items()} for _ in range(repeats)
            ]
            for name, alone in found.items():
                alone.ms.append(1e3 * min(turn[name][0] for turn in turns))
                (one,) = turns[0][name][1]
                alone.passes.append(one.passes or len(one.tokens) + 1)
    return found


def in_batches(
    systems: Sequence[System], texts: Sequence[str], rounds: int
) -> tuple[dict[str, list[float]], dict[str, list[Translation]]]:
    """Seconds of each round, and the translations."""
    seconds: dict[str, list[float]] = {system.name: [] for system in systems}
    outputs: dict[str, list[Translation]] = {}
    for _ in range(rounds):
        for system in systems:
            translator = system.translator()
            translator.translate(list(texts[:4]), token_scores=False)
            took, outputs[system.name] = _seconds(translator, texts)
            seconds[system.name].append(took)
    return seconds, outputs


def _seconds(translator: Translator, texts: Sequence[str]) -> tuple[float, list[Translation]]:
    began = time.perf_counter()
    found = translator.translate(list(texts), token_scores=False)
    return time.perf_counter() - began, found


def measure(
    systems: Sequence[System], test: EvaluationSet, metric: Metric, texts: int, repeats: int, rounds: int
) -> list[Row]:
    assert test.sources is not None
    seconds, outputs = in_batches(systems, test.sources, rounds)
    some = [test.sources[number * len(test.sources) // texts] for number in range(min(texts, len(test.sources)))]
    alone = one_at_a_time(systems, some, repeats)
    said = {name: [one.text for one in found] for name, found in outputs.items()}
    scores = compare_outputs(said, test, [metric]).scores
    first_ms, first_seconds = alone[BASELINE].ms, median(seconds[BASELINE])
    rows = []
    for system in systems:
        name = system.name
        (score,) = scores[name]
        rows.append(
            Row(
                system=name,
                group=system.group,
                score=score.value,
                low=score.interval.low,
                high=score.interval.high,
                verdict=verdict(metric, score),
                differ=sum(a != b for a, b in zip(said[name], said[BASELINE], strict=True)),
                one_ms=median(alone[name].ms),
                one_ratio=median(a / b for a, b in zip(first_ms, alone[name].ms, strict=True)),
                batch_per_second=len(test) / median(seconds[name]),
                batch_ratio=first_seconds / median(seconds[name]),
                passes=mean(alone[name].passes),
            )
        )
    return rows


def table(rows: Sequence[Row], metric: Metric) -> str:
    titles = [
        *("system", metric.title, "against greedy", "other outputs", "one text, ms", "times as fast"),
        *("texts/s", "times as fast", "passes"),
    ]
    lines = [f"| {' | '.join(titles)} |", "|" + "---|" * len(titles)]
    for row in rows:
        lines.append(
            f"| {row.system} | {row.score:.2f} ± {(row.high - row.low) / 2:.2f} | {row.verdict} | {row.differ:,} | "
            f"{row.one_ms:.2f} | {row.one_ratio:.2f} | {row.batch_per_second:,.0f} | {row.batch_ratio:.2f} | "
            f"{row.passes:.1f} |"
        )
    return "\n".join(lines) + "\n"


def picture(rows: Sequence[Row], metric: Metric) -> str:
    """Named are the first, and those that no other one beats both in quality and in speed."""
    sign = 1 if metric.higher_is_better else -1

    def beaten(row: Row) -> bool:
        return any(each.one_ratio > row.one_ratio and sign * each.score > sign * row.score for each in rows)

    return draw_points(
        {row.system: Point(row.one_ratio, row.score, row.group, row is rows[0] or not beaten(row)) for row in rows},
        f"{metric.title} and speed of each way to decode",
        "texts alone: times as fast as greedy search in PyTorch",
        metric.title,
        metric.higher_is_better,
    )


def _named(text: str) -> tuple[str, Path]:
    name, _, folder = text.partition("=")
    if not folder:
        raise argparse.ArgumentTypeError(f"{text}: write NAME=FOLDER")
    return name, Path(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--nat", type=_named, action="append", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--draft", action="append", default=[], help="jacobi, input, own, or the folder of a model")
    parser.add_argument("--src", type=Path)
    parser.add_argument("--ref", type=Path, action="append", default=[])
    parser.add_argument("--tsv", type=Path)
    parser.add_argument("--metric", required=True)
    parser.add_argument("--lang")
    parser.add_argument("--texts", type=int, default=200, help="so many alone, evenly spread")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=ENGINES, help="of non-autoregressive models")
    parser.add_argument("--blank-penalty", type=float, default=0.0, help="search.blank_penalty of ctc")
    parser.add_argument("--rescore", action="store_true", help="let AR_MODEL choose among several outputs, too")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    test = read_evaluation_set(options.ref, options.src, options.tsv)
    (metric,) = choose_metrics([options.metric], options.lang)
    with tempfile.TemporaryDirectory() as scratch:
        how = OnePass(options.engines, options.model if options.rescore else None, options.blank_penalty)
        systems = list(systems_of(options.model, dict(options.nat), options.draft, Path(scratch), how))
        rows = measure(systems, test, metric, options.texts, options.repeats, options.rounds)
    options.out.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(asdict(row)) + "\n" for row in rows)
    files = {"jsonl": lines, "md": table(rows, metric), "svg": picture(rows, metric)}
    for ending, content in files.items():
        (options.out / f"decoding_kinds.{ending}").write_text(content, encoding="utf-8")
    print(files["md"])


if __name__ == "__main__":
    main()

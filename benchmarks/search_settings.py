"""One model, several ways to search: how good, how many passes, how fast. The first one is the baseline.

    python benchmarks/search_settings.py MODEL --search "search.passes=1" --search "search.passes=4" ... \
        (--src FILE --ref FILE | --tsv FILE) --metric bleu_tok_lc [--lang de] [--svg FILE]

Each `--search` has settings with spaces between them. In PyTorch, in batches, all cores. The SVG has quality against
passes.
"""

import argparse
import time
from pathlib import Path
from statistics import mean

from qkv.evaluation.compare import compare_outputs, verdict
from qkv.evaluation.files import read_evaluation_set
from qkv.evaluation.metrics.registry import choose_metrics
from qkv.translate.output import Translation
from qkv.translate.settings import translation_config
from qkv.visual.charts import Point, draw_points


def decode(model: Path, settings: str, sources: list[str]) -> tuple[list[Translation], float]:
    """And the seconds it took."""
    translator = translation_config(settings.split(), model).translator([model], "torch")
    translator.translate(sources[:4], token_scores=False)
    began = time.perf_counter()
    found = translator.translate(sources, token_scores=False)
    return found, time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--search", action="append", required=True, metavar="SETTINGS")
    parser.add_argument("--src", type=Path)
    parser.add_argument("--ref", type=Path, action="append", default=[])
    parser.add_argument("--tsv", type=Path)
    parser.add_argument("--metric", required=True)
    parser.add_argument("--lang")
    parser.add_argument("--svg", type=Path)
    options = parser.parse_args()
    test = read_evaluation_set(options.ref, options.src, options.tsv)
    (metric,) = choose_metrics([options.metric], options.lang)
    sources = list(test.sources or [])
    found = {settings: decode(options.model, settings, sources) for settings in options.search}
    said = {name: [one.text for one in outputs] for name, (outputs, _) in found.items()}
    scores = {name: score for name, (score,) in compare_outputs(said, test, [metric]).scores.items()}
    passes = {name: mean(one.passes or len(one.tokens) + 1 for one in outputs) for name, (outputs, _) in found.items()}
    print(f"| search | {metric.title} | against the first | passes | texts/s |\n|---|---|---|---|---|")
    for name, (_, seconds) in found.items():
        score = scores[name]
        print(
            f"| `{name}` | {score.value:.2f} ± {score.interval.half_width:.2f} | {verdict(metric, score)} | "
            f"{passes[name]:.1f} | {len(sources) / seconds:,.0f} |"
        )
    if options.svg:
        points = {name: Point(passes[name], score.value, "") for name, score in scores.items()}
        title = f"{metric.title} against passes"
        drawn = draw_points(points, title, "passes", metric.title, metric.higher_is_better)
        options.svg.write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main()

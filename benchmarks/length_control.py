"""Length on demand: how long outputs are, and how good, when so many times the usual length is asked for.

    python benchmarks/length_control.py MODEL [search.length_slack=0 ...] --src F --ref F [--svg FILE]

For each factor: the mean number of tokens, their ratio to those of factor 1, the mean distance from the length that was
asked for, BLEU (lower-cased, sacreBLEU) and its brevity penalty. The model may be autoregressive or not:
`length_factor` is a setting of both kinds of search. `--slack 0 1` measures both values of `length_slack`.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

from sacrebleu.metrics.bleu import BLEU

from qkv.decoding.settings import translation_config
from qkv.decoding.translator import Translator

FACTORS = (0.8, 0.9, 1.0, 1.1, 1.2, 1.35, 1.5)


@dataclass(frozen=True)
class Row:
    """What one factor gave."""

    factor: float
    tokens: float
    ratio: float
    off: float
    bleu: float
    brevity: float


def measure(model: Path, settings: list[str], sources: list[str], references: list[str], count: list[int]) -> list[Row]:
    """A row for each factor; `count` gets the lengths of factor 1."""
    scorer = BLEU(lowercase=True)
    rows = []
    for factor in sorted(FACTORS, key=lambda factor: factor != 1.0):
        config = translation_config([*settings, f"search.length_factor={factor}"], model)
        found = Translator(model, "auto", config.search).translate(sources, token_scores=False)
        lengths = [len(one.tokens) for one in found]
        count[:] = count or lengths
        wanted = [max(1, round(factor * usual)) for usual in count]
        off = sum(abs(length - own) for length, own in zip(lengths, wanted, strict=True)) / len(lengths)
        score = scorer.corpus_score([one.text for one in found], [references])
        mean = sum(lengths) / len(lengths)
        rows.append(Row(factor, mean, sum(lengths) / sum(count), off, score.score, score.bp))
    return sorted(rows, key=lambda row: row.factor)


def draw(path: Path, curves: dict[str, list[Row]]) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "length"  # the same numbers give the same file
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
    left.plot(FACTORS, FACTORS, color="grey", linestyle=":", label="as asked")
    for name, rows in curves.items():
        factors = [row.factor for row in rows]
        left.plot(factors, [row.ratio for row in rows], marker="o", label=name)
        right.plot(factors, [row.bleu for row in rows], marker="o", label=name)
    left.set(xlabel="length factor", ylabel="length / usual length")
    right.set(xlabel="length factor", ylabel="BLEU", ylim=(0, None))
    left.legend()
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("settings", nargs="*", help="such as search=greedy")
    parser.add_argument("--src", type=Path, required=True)
    parser.add_argument("--ref", type=Path, required=True)
    parser.add_argument("--lines", type=int, default=200)
    parser.add_argument("--slack", type=int, nargs="*", help="of an autoregressive search; none: as the search has it")
    parser.add_argument("--svg", type=Path)
    arguments = parser.parse_args()
    sources, references = (
        path.read_text(encoding="utf-8").split("\n")[: arguments.lines] for path in (arguments.src, arguments.ref)
    )
    curves = {}
    for slack in arguments.slack or [None]:
        settings = [*arguments.settings, *([] if slack is None else [f"search.length_slack={slack}"])]
        rows = curves["outputs" if slack is None else f"slack {slack}"] = measure(
            arguments.model, settings, sources, references, []
        )
        print(f"\n{' '.join(settings) or 'the usual search'}\n| factor | tokens | ratio | off | BLEU | brevity |")
        print("|---|---|---|---|---|---|")
        for row in rows:
            print(
                f"| {row.factor} | {row.tokens:.2f} | {row.ratio:.2f} | {row.off:.2f} | {row.bleu:.1f} | "
                f"{row.brevity:.3f} |"
            )
    if arguments.svg:
        draw(arguments.svg, curves)


if __name__ == "__main__":
    main()

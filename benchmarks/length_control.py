"""Length on demand: how long outputs are, and how good, when a multiple of the default length is asked for.

    python benchmarks/length_control.py MODEL [search.length_slack=0 ...] --src F --ref F [--svg FILE]

For each factor: the mean number of tokens, their ratio to those of factor 1, the mean distance from the length that was
asked for, BLEU (lower-cased, sacreBLEU) and its brevity penalty. The model may be autoregressive or not:
`length_factor` is a setting of both kinds of search. `--slack 0 1` measures both values of `length_slack`.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

from sacrebleu.metrics.bleu import BLEU

from qkv.translate.settings import translation_config
from qkv.translate.translator import Translator

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
        wanted = [max(1, round(factor * length)) for length in count]
        off = sum(abs(length - own) for length, own in zip(lengths, wanted, strict=True)) / len(lengths)
        score = scorer.corpus_score([one.text for one in found], [references])
        mean = sum(lengths) / len(lengths)
        rows.append(Row(factor, mean, sum(lengths) / sum(count), off, score.score, score.bp))
    return sorted(rows, key=lambda row: row.factor)


def draw(curves: dict[str, list[Row]]) -> str:
    """BLEU against the factor as an SVG."""
    width, height, left, bottom = 560, 300, 50, 40
    most = 10 * (max(row.bleu for rows in curves.values() for row in rows) // 10 + 1)

    def place(factor: float, bleu: float) -> tuple[float, float]:
        share = (factor - FACTORS[0]) / (FACTORS[-1] - FACTORS[0])
        return round(left + share * (width - left - 90), 1), round((height - bottom) * (1 - bleu / most) + 10, 1)

    body = []
    for bleu in range(0, int(most) + 1, 10):
        y = place(1.0, bleu)[1]
        body.append(
            f'<path d="M{left} {y}H{width - 90}" stroke="#7773"/><text x="{left - 24}" y="{y + 4}">{bleu}</text>'
        )
    for factor in FACTORS:
        body.append(f'<text x="{place(factor, 0)[0] - 8}" y="{height - 12}">{factor:g}</text>')
    for colour, (name, rows) in zip(("#2166ac", "#b2182b", "#1b7837", "#e08214"), curves.items(), strict=False):
        points = [place(row.factor, row.bleu) for row in rows]
        path = " ".join(f"{x},{y}" for x, y in points)
        body.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        body += [f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"/>' for x, y in points]
        top = 24 + 18 * list(curves).index(name)
        body.append(f'<text x="{width - 80}" y="{top}" style="fill:{colour}">{name}</text>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">'
    title = "<title>BLEU when a multiple of the default length is asked for</title>"
    return "\n".join([head, title, "<style>text{font:13px sans-serif;fill:#777}</style>", *body, "</svg>\n"])


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
        print(f"\n{' '.join(settings) or 'the default search'}\n| factor | tokens | ratio | off | BLEU | brevity |")
        print("|---|---|---|---|---|---|")
        for row in rows:
            print(
                f"| {row.factor} | {row.tokens:.2f} | {row.ratio:.2f} | {row.off:.2f} | {row.bleu:.1f} | "
                f"{row.brevity:.3f} |"
            )
    if arguments.svg:
        arguments.svg.write_text(draw(curves), encoding="utf-8")


if __name__ == "__main__":
    main()

"""How far the output of simultaneous translation lags behind its source, which is fed character by character.

    python benchmarks/lagging.py MODEL [MODEL ...] --data TEST.tsv [--count 300]

TEST.tsv has a source, a tab and its target on each line. For each model: average lagging (Ma et al. 2019) and
differentiable average lagging (Arivazhagan et al. 2019) in source tokens, means over the sources; the share of output
tokens that were written before the end of the source was read; and how many outputs are those of greedy search on the
whole source, which should be all.
"""

import argparse
from pathlib import Path

from qkv import Translator
from qkv.search.greedy import GreedyConfig


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--count", type=int, default=300)
    arguments = parser.parse_args()
    lines = arguments.data.read_text(encoding="utf-8").splitlines()[: arguments.count]
    sources = [line.split("\t")[0] for line in lines]
    print(
        "| model | average lagging | differentiable | written early | as of the whole source |\n|---|---|---|---|---|"
    )
    for model in arguments.models:
        translator = Translator(model, "torch", GreedyConfig())
        whole = [found.text for found in translator.translate(sources)]
        streamed = [list(translator.simultaneous(source))[-1] for source in sources]
        written = [found for found in streamed if found.tokens]
        lagging = sum(found.average_lagging for found in written) / len(written)
        differentiable = sum(found.differentiable_average_lagging for found in written) / len(written)
        early = [delay < found.src_length for found in written for delay in found.delays]
        same = sum(found.text == text for found, text in zip(streamed, whole, strict=True))
        print(
            f"| {model.name} | {lagging:.1f} | {differentiable:.1f} | {100 * sum(early) / len(early):.0f} % "
            f"| {same} of {len(sources)} |",
            flush=True,
        )


if __name__ == "__main__":
    main()

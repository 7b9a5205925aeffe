"""From RNN to attention: recurrent, convolutional and attention models, measured on the same tasks.

    python benchmarks/compare_families.py --out DIR --cmudict DIR --multi30k DIR

Models have about --parameters parameters each. Parts, by --parts:

    tasks       CMUdict and SIGMORPHON 2021 (letters to phonemes), Multi30k (English to German), those whose folder is
                given: each family trained for --seconds of processor time on one thread (budget `time`), or for
                --updates (budget `updates`), then decoded by beam search, and tested against the first of --families by
                paired bootstrap and approximate randomisation
    first_word  how much of the first of n words survives (--lengths)
    growth      time a token against the length (--growth-lengths)

Equal time is equal processor time: families are first timed in turns, update by update (those that are added later,
among themselves), and each then gets as many updates as fit. Everything is kept in --out: results.jsonl has one line
for each measurement, which is then not made again, and an interrupted training run is resumed. What depends on an
option is measured anew where the option is another, and everything where the models have changed since (`MODELS` in
families/results.py); tables show what belongs to the options that are given. They are printed as Markdown;
--pictures DIR also draws them.

The defaults are a small budget, for an hour or two of one core. A full one: --seconds 3600 --pairs 1000000
--sources 100000 --parameters 5000000 --first-word-updates 3000 --budgets time updates.
"""

import argparse
import os
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from families.first_word import run_first_word
from families.growth import run_growth
from families.models import FAMILIES
from families.report import comparisons, draw, report
from families.results import Results
from families.tasks import run_task, tasks

PARTS = ("tasks", "first_word", "growth")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of results and runs")
    parser.add_argument("--cmudict", type=Path, help="folder with g014b2b.train and g014b2b.test")
    parser.add_argument(
        "--sigmorphon", type=Path, help="folder of SIGMORPHON 2021, with hun_train.tsv and hun_test.tsv"
    )
    parser.add_argument("--language", default="hun", help="of SIGMORPHON 2021: hun, eng_us")
    parser.add_argument("--multi30k", type=Path, help="folder with train.en, train.de, test_2016_flickr.en and .de")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument(
        "--families", nargs="+", choices=list(FAMILIES), default=list(FAMILIES), help="the first is the baseline"
    )
    parser.add_argument("--parameters", type=int, default=1_000_000, help="of each model, about")
    parser.add_argument("--budgets", nargs="+", choices=["time", "updates"], default=["time"])
    parser.add_argument("--seconds", type=float, default=120, help="of training, for the budget time")
    parser.add_argument("--updates", type=int, default=400, help="of training, for the budget updates")
    parser.add_argument("--rate", type=float, default=2e-3, help="the highest learning rate")
    parser.add_argument(
        "--rates",
        nargs="+",
        type=family_and_rate,
        default=[],
        metavar="FAMILY=RATE",
        help='of single families instead, as in "ConvS2S=1e-3" "RNN with attention=2e-3"',
    )
    parser.add_argument("--pairs", type=int, default=20_000, help="training pairs, drawn from all")
    parser.add_argument("--sources", type=int, default=500, help="test pairs, drawn from all")
    parser.add_argument("--lengths", type=int, nargs="+", default=[10, 30, 100, 300, 500])
    parser.add_argument("--first-word-updates", type=int, default=300)
    parser.add_argument("--longest-lstmn", type=int, default=100, help="an LSTMN takes the square of the length")
    parser.add_argument("--growth-lengths", type=int, nargs="+", default=[16, 32, 64, 128, 256, 512])
    parser.add_argument("--rounds", type=int, default=5, help="of a timing")
    parser.add_argument("--pictures", type=Path, help="folder for charts")
    parser.add_argument("--table", action="store_true", help="only print what is there for these options")
    return parser.parse_args()


def family_and_rate(given: str) -> tuple[str, float]:
    """One of --rates."""
    family, _, rate = given.rpartition("=")
    if family not in FAMILIES:
        known = ", ".join(map(repr, FAMILIES))
        raise argparse.ArgumentTypeError(f"{given!r} does not begin with a family and =; there are {known}")
    try:
        return family, float(rate)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{given!r} does not end with a number, as {family}=1e-3 does") from None


def main() -> None:
    options = arguments()
    torch.set_num_threads(1)
    results = Results(options.out / "results.jsonl")
    chosen = tasks(options) if "tasks" in options.parts else []
    if not options.table:
        if "growth" in options.parts:
            run_growth(options, results)
        if "first_word" in options.parts:
            run_first_word(options, results)
        for task in chosen:
            run_task(task, options, results)
    compared = comparisons(chosen, options, results)
    print("\n".join(report(compared, options, results)))
    if options.pictures:
        draw(compared, options, results)


if __name__ == "__main__":
    main()

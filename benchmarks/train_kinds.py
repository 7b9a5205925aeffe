"""Every kind of decoder that writes all tokens at once, trained alike: the same teacher's weights, updates and data.

    python benchmarks/train_kinds.py RECIPE [key=value ...] --teacher DIR --distilled DIR --out DIR [--budget 300u]
        [--kinds nat canvas mask_predict ctc dag]

RECIPE is one of such a model, such as recipes/multi30k-en-de-ctc.yaml; settings hold for all runs. Each kind learns
twice: from the recipe's own targets, and from those that `qkv distill` wrote to --distilled (train.src, train.tgt; with
a hold-out also dev.src, dev.tgt). A run that is finished is not run again and an interrupted one is resumed. At the
end stdout has the `--nat` options with which benchmarks/decoding_kinds.py puts all of them into one table.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

from training_runs import train_or_resume

from qkv.training.run.folder import RunFolder

KINDS = {
    "nat": ["model.decoder={kind: nat}"],
    "canvas": ["model.decoder={kind: canvas, factor: 1.2}", "objective.glancing=null"],
    "mask_predict": ["model.decoder={kind: mask_predict}", "objective.glancing=null"],
    "ctc": ["model.decoder={kind: ctc, upsample: 2}"],
    "dag": ["model.decoder={kind: dag, factor: 2}"],
}


def data_sets(distilled: Path) -> dict[str, list[str]]:
    """The settings of each set of targets."""
    settings = [f"data.train={_pairs(distilled, 'train')}"]
    if (distilled / "dev.src").is_file():
        settings += [f"data.dev={_pairs(distilled, 'dev')}", "data.holdout=null"]
    return {"raw": [], "distilled": settings}


def _pairs(folder: Path, part: str) -> str:
    files = [(folder / f"{part}.{side}").resolve() for side in ("src", "tgt")]
    return f"{{kind: text, src: {files[0]}, tgt: {files[1]}}}"


def all_runs(options: argparse.Namespace) -> Iterator[tuple[str, list[str]]]:
    """Names and settings."""
    fixed = [f"start_from={options.teacher.resolve()}", f"training.stop_after={options.budget}", *options.settings]
    for kind in options.kinds:
        for name, data in data_sets(options.distilled).items():
            yield f"{kind}-{name}", [*fixed, *KINDS[kind], *data]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("settings", nargs="*", metavar="key=value", help="of the recipe, for all runs")
    parser.add_argument("--teacher", type=Path, required=True, help="the autoregressive model")
    parser.add_argument("--distilled", type=Path, required=True, help="what `qkv distill` wrote with it")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--budget", default="300u", help="of each run, such as 300u or 20m")
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    return parser.parse_args()


def main() -> None:
    options = arguments()
    folders = {}
    for name, settings in all_runs(options):
        folders[name] = RunFolder(options.out / name)
        if not (folders[name].path / "finished").exists():
            train_or_resume(folders[name], options.recipe, settings)
            (folders[name].path / "finished").touch()
    print(" ".join(f"--nat {name}={run.path}" for name, run in folders.items()))


if __name__ == "__main__":
    main()

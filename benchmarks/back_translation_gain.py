"""What target-side texts are worth: back-translation on a tenth of Multi30k, at equal updates.

    python benchmarks/back_translation_gain.py --out DIR --multi30k DIR

The first --pairs pairs of the training data stay pairs; of the others only the German side is used. A model from German
to English (--reverse-updates) writes their sources. A model from English to German learns the pairs (--updates); from
its weights two are trained further with --more-updates each: one on the pairs alone, one on pairs (each --weight times
an epoch) and synthetic pairs. Ten times the data need less dropout, so both are trained with each of --more-dropout.
The dropout and the weights with the best BLEU on dev data count. All translate the test data of 2016 with beam search
and are compared by paired bootstrap and approximate randomisation.
Runs and synthetic pairs are kept in --out, and what was interrupted is resumed.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from training_runs import print_comparison, tenth_parser, trained, write_if_other

from qkv.evaluation.files import read_evaluation_set
from qkv.training.run.folder import RunFolder


def arguments() -> argparse.Namespace:
    parser = tenth_parser(__doc__)
    parser.add_argument("--texts", type=int, default=26_100, help="German texts without their sources")
    parser.add_argument("--reverse-updates", type=int, default=4000)
    parser.add_argument("--updates", type=int, default=4000, help="on the pairs")
    parser.add_argument("--more-updates", type=int, default=4000, help="with and without synthetic pairs")
    parser.add_argument("--weight", type=int, default=3, help="how often an epoch uses a real pair")
    parser.add_argument("--tag", default="¤", help="the word before every synthetic source")
    parser.add_argument("--d-model", type=int, default=128)
    parser.add_argument("--layers", type=int, default=2, help="of the encoder and of the decoder")
    parser.add_argument("--dropout", type=float, default=0.3)
    parser.add_argument("--more-dropout", type=float, nargs="+", default=[0.3, 0.1], help="tried in the second stage")
    return parser.parse_args()


def write_data(options: argparse.Namespace) -> Path:
    """few, val, test of both sides, and rest.de; not written again, so that runs can be resumed."""
    folder: Path = options.out / "data"
    folder.mkdir(parents=True, exist_ok=True)
    last = options.pairs + options.texts
    for side in ("en", "de"):
        train, dev, test = (
            (options.multi30k / f"{name}.{side}").read_text(encoding="utf-8").splitlines()
            for name in ("train", "val", "test_2016_flickr")
        )
        written = {"few": train[: options.pairs], "val": dev, "test": test[: options.sources]}
        if side == "de":
            written["rest"] = train[options.pairs : last]
        for name, lines in written.items():
            write_if_other(folder / f"{name}.{side}", lines)
    return folder


def recipe_of(options: argparse.Namespace, data: Path, src: str, tgt: str, updates: int, peak: float) -> dict[str, Any]:
    """A model of the pairs."""
    corpora = {
        part: {"kind": "text", "src": f"{name}.{src}", "tgt": f"{name}.{tgt}"}
        for part, name in {"train": "few", "dev": "val"}.items()
    }
    sizes = {"d_model": options.d_model, "d_ff": 4 * options.d_model, "num_heads": 4}
    layers = {"encoder_layers": options.layers, "decoder_layers": options.layers}
    pieces = {"kind": "sentencepiece", "model": "bpe", "vocab_size": 2000, "sampling": 0.1}
    return {
        "seed": 1,
        "data": {"root": str(data.resolve()), **corpora},
        "text": {"shared": {**pieces, "normalize": {"lowercase": True}}},
        "batch": {"tokens": 1024},
        "model": {**sizes, **layers, "residual": "pre", "positions": "rope", "dropout": options.dropout},
        "optimizer": "muon",
        "schedule": {"kind": "linear", "peak": peak, "warmup": max(1, min(100, updates // 5))},
        "training": {"stop_after": f"{updates}u", "threads": 1, "precision": options.precision},
        "validation": {
            "every": f"{max(1, updates // 4)}u",
            "metrics": ["bleu_tok_lc"],
            "language": tgt,
            "best": "bleu_tok_lc",
        },
    }


def synthetic_pairs(options: argparse.Namespace, reverse: RunFolder, data: Path) -> dict[str, Any]:
    """A corpus whose targets are the texts; an interrupted job is resumed, a complete one is left as it is."""
    made = options.out / "synthetic"
    command = ["backtranslate", str(reverse.path), "--mono", str(data / "rest.de"), "--out", str(made)]
    verb = [sys.executable, "-c", "from qkv.cli import main; main()", *command, "--tag", options.tag]
    subprocess.run(verb, check=True, stdout=subprocess.DEVNULL)
    return {"kind": "text", "src": str((made / "train.src").resolve()), "tgt": str((made / "train.tgt").resolve())}


def dev_score(run: RunFolder) -> float:
    return float(json.loads((run.best / "manifest.json").read_text(encoding="utf-8"))["scores"]["bleu_tok_lc"])


def best_dropout(options: argparse.Namespace, name: str, recipe: dict[str, Any]) -> RunFolder:
    """The run whose best model has the highest BLEU on dev data."""
    runs = dict[float, RunFolder]()
    for dropout in options.more_dropout:
        keys = recipe | {"model": {**recipe["model"], "dropout": dropout}}
        runs[dropout] = trained(options.out, f"{name}-{options.updates}-{options.more_updates}-{dropout}", keys)
    scores = {dropout: dev_score(run) for dropout, run in runs.items()}
    print(f"{name}: dev BLEU", ", ".join(f"{score:.2f} with dropout {dropout}" for dropout, score in scores.items()))
    return runs[max(scores, key=lambda dropout: scores[dropout])]


def main() -> None:
    options = arguments()
    data = write_data(options)
    size = f"{options.d_model}-{options.pairs}"
    backwards = recipe_of(options, data, "de", "en", options.reverse_updates, 3e-3)
    reverse = trained(options.out, f"de-en-{size}-{options.reverse_updates}", backwards)
    synthetic = synthetic_pairs(options, reverse, data)
    forwards = recipe_of(options, data, "en", "de", options.updates, 3e-3)
    first = trained(options.out, f"pairs-{size}-{options.updates}", forwards)
    further = recipe_of(options, data, "en", "de", options.more_updates, 2e-3)
    further["start_from"] = str(first.path.resolve())
    pairs = further["data"]["train"]
    mixed = further | {"data": further["data"] | {"train": [{**pairs, "weight": options.weight}, synthetic]}}
    runs = {
        "pairs alone": best_dropout(options, f"alone-{size}", further),
        "and synthetic pairs": best_dropout(options, f"mixed-{size}", mixed),
        "before both": first,
    }
    print_comparison(runs, read_evaluation_set([data / "test.de"], data / "test.en", None), "bleu_tok_lc", "de")


if __name__ == "__main__":
    main()

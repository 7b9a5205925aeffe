"""What texts without translations are worth: T5 on a tenth of Multi30k, from scratch and after masked spans.

    python benchmarks/pretraining_gain.py --out DIR --multi30k DIR

The first --pairs pairs of the training data stay pairs. Of the others the English side, and the German side of all, are
texts, in random order. One model learns masked spans of them (--pretraining updates); two learn the pairs with the same
settings and --updates each, one from those weights and one from scratch, and the weights with the best BLEU on dev
data count. Both translate the test data of 2016 with beam search and are compared by paired bootstrap and approximate
randomisation. Runs are kept in --out and an interrupted one is resumed.
"""

import argparse
import os
import random
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from training_runs import print_comparison, tenth_parser, trained, write_if_other

from qkv.evaluation.files import read_evaluation_set
from qkv.training.run.folder import RunFolder

SCRATCH, TUNED = "from scratch", "from texts"


def arguments() -> argparse.Namespace:
    parser = tenth_parser(__doc__)
    parser.add_argument("--pretraining", type=int, default=2000, help="updates on texts")
    parser.add_argument("--updates", type=int, default=1000, help="updates on pairs, of each model")
    parser.add_argument("--d-model", type=int, default=128)
    parser.add_argument("--layers", type=int, default=2, help="of the encoder and of the decoder")
    parser.add_argument("--density", type=float, default=0.5, help="the share of a text that is in spans")
    parser.add_argument("--whole", action="store_true", help="texts are to be said as wholes, not only their spans")
    parser.add_argument("--peak", type=float, default=3e-3, help="the highest learning rate")
    parser.add_argument("--tuning-dropout", type=float, default=0.2)
    return parser.parse_args()


def write_data(options: argparse.Namespace) -> Path:
    """texts, dev.texts, and train, dev, test as pairs; not written again, so that runs can be resumed."""
    folder: Path = options.out / "data"
    folder.mkdir(parents=True, exist_ok=True)
    sides = {name: [_lines(options.multi30k / f"{name}.{side}") for side in ("en", "de")] for name in NAMES}
    (english, german), dev = sides["train"], sides["val"]
    order = list(range(len(english)))
    random.Random(1).shuffle(order)
    texts = [english[number] for number in order[options.pairs :]] + german
    random.Random(2).shuffle(texts)
    pairs = {"train": [(english[number], german[number]) for number in order[: options.pairs]]}
    pairs |= {"dev": list(zip(*dev, strict=True)), "test": list(zip(*sides["test_2016_flickr"], strict=True))}
    written = {"texts": texts, "dev.texts": [*dev[0][:300], *dev[1][300:600]]}
    written |= {name: [f"{src}\t{tgt}" for src, tgt in some] for name, some in pairs.items()}
    written["test"] = written["test"][: options.sources]
    for name, lines in written.items():
        write_if_other(folder / name, lines)
    return folder


NAMES = ("train", "val", "test_2016_flickr")


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def recipe_of(options: argparse.Namespace, dropout: float, updates: int, tokens: int) -> dict[str, Any]:
    """What both kinds of run have in common."""
    sizes = {"d_model": options.d_model, "d_ff": 2 * options.d_model, "num_heads": 4}
    layers = {"encoder_layers": options.layers, "decoder_layers": options.layers}
    return {
        "text": {"shared": {"kind": "bpe", "vocab_size": 2000, "normalize": {"lowercase": True}}},
        "batch": {"tokens": tokens},
        "model": {"kind": "text_to_text", **sizes, **layers, "dropout": dropout, "sentinels": 40},
        "optimizer": "muon",
        "schedule": {"kind": "linear", "peak": options.peak, "warmup": max(1, min(200, updates // 5))},
        "training": {"stop_after": f"{updates}u", "threads": 1, "precision": options.precision},
    }


def pretrained(options: argparse.Namespace, data: Path) -> RunFolder:
    corpora = {"train": {"kind": "lines", "path": "texts"}, "dev": {"kind": "lines", "path": "dev.texts"}}
    keys = recipe_of(options, 0.1, options.pretraining, 2048) | {
        "data": {"kind": "texts", "root": str(data.resolve()), **corpora, "max_tokens": 64},
        "objective": {"smoothing": "none", "spans": {"density": options.density, "whole": options.whole}},
        "validation": {"every": f"{max(1, options.pretraining // 4)}u"},
    }
    return trained(options.out, f"spans-{name_of(options)}", keys)


def name_of(options: argparse.Namespace) -> str:
    """Of a run of texts."""
    target = "-whole" if options.whole else ""
    return f"{options.d_model}-{options.pretraining}-{options.density}{target}"


def translator(options: argparse.Namespace, data: Path, name: str, more: dict[str, Any]) -> RunFolder:
    """A model of the pairs."""
    corpora = {part: {"kind": "tsv", "path": part} for part in ("train", "dev", "test")}
    validation = {"every": f"{max(1, options.updates // 5)}u", "max_sources": 200}
    # Texts are in lower case, and so is what is compared.
    validation |= {"metrics": ["bleu_tok_lc"], "best": "bleu_tok_lc", "language": "de"}
    keys = recipe_of(options, options.tuning_dropout, options.updates, 1024) | {
        "data": {"root": str(data.resolve()), **corpora},
        "objective": {"smoothing": {"kind": "uniform", "amount": 0.1}},
        "validation": validation,
    }
    return trained(options.out, f"{name}-{options.updates}-{options.tuning_dropout}", keys | more)


def main() -> None:
    options = arguments()
    torch.set_num_threads(1)
    data = write_data(options)
    spans = pretrained(options, data)
    runs = {
        SCRATCH: translator(
            options, data, f"scratch-{options.d_model}", {"tokenizers": str(spans.tokenizer.resolve())}
        ),
        TUNED: translator(options, data, f"tuned-{name_of(options)}", {"start_from": str(spans.path.resolve())}),
    }
    print_comparison(runs, read_evaluation_set([], None, data / "test"), "bleu_tok_lc", "de")


if __name__ == "__main__":
    main()

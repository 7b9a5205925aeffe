"""Which attention can hold one update on a long source in a given memory?

    python benchmarks/long_input.py [--lengths 4096 8192 16384 32768] [--gigabytes 2]

Takes the model of recipes/long-retrieval.yaml, changes the attention of its encoder and nothing else, and makes one
update with sources of each length, as many as the recipe puts into a batch. Each is a process of its own with one
thread, which may not have more than --gigabytes of data. The table gives the peak of resident memory, libraries
included, and the processor time of the update.

PyTorch has a kernel for full attention that never writes all weights down; it can be used as long as nothing is done to
the weights. Dropout on them is something, and so is a bias of positions; "dropout" stands for attention_dropout: 0.1.
"""

import argparse
import subprocess
import sys
import time

import torch
from process_memory import allow, peak_bytes, ran_out

from qkv.models.transformer.build import build_model
from qkv.models.transformer.config import TransformerConfig
from qkv.models.transformer.model import Transformer
from qkv.recipes import load_recipe

RECIPE = "long-retrieval"
VOCAB = 200
DROPOUT = "model.attention_dropout=0.1"
KINDS = {
    "full": ["model.encoder_attention={kind: full}"],
    "full, dropout": ["model.encoder_attention={kind: full}", DROPOUT],
    "longformer": ["model.encoder_attention={kind: longformer, window: 64, global_positions: [0]}"],
    "longformer, dropout": ["model.encoder_attention={kind: longformer, window: 64, global_positions: [0]}", DROPOUT],
    "lsh": ["model.encoder_attention={kind: lsh}"],
    "lsh, dropout": ["model.encoder_attention={kind: lsh}", DROPOUT],
}


def update(model: Transformer, rows: int, length: int) -> None:
    """Forward, backward and a step on random tokens."""
    optimizer = torch.optim.Adam(model.parameters())
    src, tgt = torch.randint(5, VOCAB, (rows, length)), torch.randint(5, VOCAB, (rows, 2))
    decoded = model.states(src, torch.ones_like(src, dtype=torch.bool), tgt)
    model.head.log_probs(decoded).mean().backward()
    optimizer.step()


def measure(kind: str, length: int, gigabytes: float) -> str:
    """In a process of its own."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    recipe = load_recipe(RECIPE, KINDS[kind])
    assert isinstance(recipe.model, TransformerConfig)
    model = build_model(recipe.model, VOCAB, VOCAB, 0)
    allow(gigabytes)
    update(model, 1, 64)  # libraries are loaded
    start = time.process_time()
    update(model, max(1, recipe.batch.tokens // (length + 1)), length)
    return f"{peak_bytes() / 1e6:.0f} MB, {time.process_time() - start:.1f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS), metavar="KIND")
    parser.add_argument("--lengths", nargs="+", type=int, default=[4096, 8192, 16384, 32768])
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--one", nargs=2, metavar=("KIND", "LENGTH"), help="one measurement, in this process")
    options = parser.parse_args()
    if options.one:
        print(measure(options.one[0], int(options.one[1]), options.gigabytes))
        return
    print("| attention | " + " | ".join(f"{length:,}" for length in options.lengths) + " |")
    print("|---|" + "---:|" * len(options.lengths), flush=True)
    for kind in options.kinds:
        cells: list[str] = []
        for length in options.lengths:
            if cells and cells[-1] == "does not fit":
                cells.append(cells[-1])
                continue
            command = [sys.executable, __file__, f"--gigabytes={options.gigabytes}", "--one", kind, str(length)]
            result = subprocess.run(command, capture_output=True, text=True)
            if result.returncode and not ran_out(result.stderr):
                raise SystemExit(f"{kind} at {length}: {result.stderr}")
            cells.append("does not fit" if result.returncode else result.stdout.strip())
        print(f"| {kind} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()

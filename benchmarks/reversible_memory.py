"""How much memory does a pass forward and backward take, as the stack becomes deeper?

    python benchmarks/reversible_memory.py --depths 2 4 8 16 32

One encoder layer stands at every depth, so that weights and their gradients take the same for all, and what grows is
what training keeps for the backward pass. Each measurement is a process of its own; the peak is the resident memory
above what the process had before the pass.
"""

import argparse
import os
import resource
import subprocess
import sys
import time

import torch

from qkv.models.transformer.build import build_model
from qkv.models.transformer.config import TransformerConfig

VOCAB = 1000
TRUTHFUL = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}
"""The C library gives every freed tensor back at once, so that resident memory is what is really in use."""
KINDS: dict[str, dict[str, object]] = {
    "layers": {},
    "reversible": {"stack": "reversible"},
    "reversible, feed-forward in slices": {"stack": "reversible", "feed_forward_chunk": 128},
}


def megabytes() -> float:
    """The most memory that this process ever had resident (Linux counts in KiB, macOS in bytes)."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def measure(kind: str, depth: int, options: argparse.Namespace) -> None:
    """Prints the peak and the seconds of one pass."""
    sizes = {"d_model": options.width, "d_ff": 4 * options.width, "num_heads": 4, "decoder_layers": 1, "dropout": 0.1}
    config = TransformerConfig(**sizes, encoder_layers=depth, residual="pre", share_layers=True, **KINDS[kind])
    torch.manual_seed(0)
    model = build_model(config, VOCAB, VOCAB, 0)
    src = torch.randint(5, VOCAB, (options.batch, options.length))
    keep = torch.ones_like(src, dtype=torch.bool)
    model.encode(src[:, :16], keep[:, :16]).sum().backward()  # gradients exist, libraries are loaded
    before, start = megabytes(), time.perf_counter()
    model.encode(src, keep).sum().backward()
    print(f"{megabytes() - before:.0f} {time.perf_counter() - start:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--depths", type=int, nargs="+", default=[2, 4, 8, 16, 32])
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--one", nargs=2, metavar=("KIND", "DEPTH"), help="one measurement, in this process")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.one:
        measure(options.one[0], int(options.one[1]), options)
        return
    sizes = [f"--{name}={getattr(options, name)}" for name in ("width", "length", "batch")]
    print("| MiB (seconds) | " + " | ".join(f"{depth} layers" for depth in options.depths) + " |")
    print("|" + "---|" * (len(options.depths) + 1))
    for kind in KINDS:
        cells = []
        for depth in options.depths:
            command = [sys.executable, __file__, *sizes, "--one", kind, str(depth)]
            found = subprocess.run(command, capture_output=True, text=True, check=True, env=TRUTHFUL).stdout.split()
            cells.append(f"{found[0]} ({found[1]})")
        print(f"| {kind} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()

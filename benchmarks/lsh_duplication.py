"""How many rounds of hashing does a copy need? The duplication task of the Reformer (Kitaev et al. 2020, table 2).

    python benchmarks/lsh_duplication.py --out duplication.json

A sequence is 0w0w: w is of random symbols, and its second half can be told from the first. One causal layer with LSH
attention learns it with some rounds of hashing and is tested with others. "full" is the same attention with everything
in one chunk. Each row that is finished is written to the file, and a later call adds the missing rows.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from qkv.functional.masks import causal
from qkv.layers.attention.context import AttentionContext
from qkv.layers.attention.lsh import LshAttention
from qkv.layers.feed_forward import FeedForward
from qkv.layers.positions.learned import Learned

FULL = "full"
SYMBOLS = 127


class Copier(nn.Module):
    """Embedding and learned positions, x + attention(LN(x)), x + feed-forward(LN(x)), and a linear map to symbols."""

    def __init__(self, length: int, width: int, heads: int, chunk: int) -> None:
        super().__init__()
        self.length, self.chunk = length, chunk
        self.tokens = nn.Embedding(SYMBOLS + 1, width)
        nn.init.normal_(self.tokens.weight, std=width**-0.5)
        self.positions = Learned(width, length)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.attention = LshAttention(width, heads, chunk=chunk)
        self.feed_forward = FeedForward(width, 2 * width)
        self.head = nn.Linear(width, SYMBOLS + 1)

    def look_with(self, rounds: str) -> None:
        """How often the attention hashes from now on, in training and testing."""
        self.attention.chunk = self.length if rounds == FULL else self.chunk
        self.attention.rounds = self.attention.test_rounds = 1 if rounds == FULL else int(rounds)

    def forward(self, ids: Tensor) -> Tensor:
        pos = torch.arange(ids.shape[1])
        first, second, last = self.norms
        x = self.positions.embed(self.tokens(ids), pos)
        x = x + self.attention(first(x), AttentionContext(pos, pos, causal))
        x = x + self.feed_forward(second(x))
        scores: Tensor = self.head(last(x))
        return scores


def sequences(count: int, word: int) -> Tensor:
    """[count, 2 word + 2]"""
    half = F.pad(torch.randint(1, SYMBOLS + 1, (count, word)), (1, 0))
    return torch.cat([half, half], dim=1)


def second_half(model: Copier, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Logits and targets where the next symbol is known: all of the second w."""
    start = ids.shape[1] // 2
    return model(ids[:, :-1])[:, start:].flatten(0, 1), ids[:, start + 1 :].flatten()


def train(rounds: str, options: argparse.Namespace, until: float) -> Copier | None:
    """A model after all updates; None if the time was over before."""
    torch.manual_seed(options.seed)
    model = Copier(2 * options.word + 2, options.width, options.heads, options.chunk)
    model.look_with(rounds)
    optimizer = torch.optim.Adam(model.parameters(), lr=options.rate, betas=(0.9, 0.98))
    for update in range(1, options.updates + 1):
        if time.monotonic() > until:
            return None
        optimizer.param_groups[0]["lr"] = options.rate * min(1.0, update / 100, 2 - 2 * update / (options.updates + 1))
        loss = F.cross_entropy(*second_half(model, sequences(options.batch, options.word)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if update % options.report == 0:
            print(f"  trained with {rounds}: update {update}, loss {loss.item():.3f}", flush=True)
    return model


@torch.no_grad()
def accuracy(model: Copier, rounds: str, options: argparse.Namespace) -> float:
    """Of the second w, in percent, over the same sequences for all."""
    model.eval().look_with(rounds)
    torch.manual_seed(options.seed + 1)
    right = 0.0
    for _ in range(options.tests):
        logits, targets = second_half(model, sequences(options.batch, options.word))
        right += float((logits.argmax(dim=-1) == targets).double().mean())
    return 100 * right / int(options.tests)


def settings(options: argparse.Namespace) -> dict[str, Any]:
    names = ("word", "width", "heads", "chunk", "batch", "updates", "rate", "seed")
    return {name: getattr(options, name) for name in names}


def show(rows: dict[str, dict[str, float]], tested: list[str]) -> None:
    print("| trained with | " + " | ".join(tested) + " |")
    print("|" + "---|" * (len(tested) + 1))
    for trained, row in rows.items():
        print(f"| {trained} | " + " | ".join(f"{row[rounds]:.1f}" for rounds in tested) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--word", type=int, default=63, help="symbols in w")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--chunk", type=int, default=16, help="positions in a chunk")
    parser.add_argument("--batch", type=int, default=16, help="sequences of an update")
    parser.add_argument("--updates", type=int, default=1500)
    parser.add_argument("--rate", type=float, default=4e-3, help="the highest learning rate")
    parser.add_argument("--train", nargs="+", default=[FULL, "4", "2", "1"], help="rounds in training, one row each")
    parser.add_argument("--test", nargs="+", default=[FULL, "8", "4", "2", "1"], help="rounds in testing")
    parser.add_argument("--tests", type=int, default=20, help="batches in testing")
    parser.add_argument("--report", type=int, default=500, help="updates between two lines")
    parser.add_argument("--minutes", type=float, default=60.0, help="start nothing new and stop after so long")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("duplication.json"))
    options = parser.parse_args()
    until = time.monotonic() + 60 * options.minutes
    done: dict[str, Any] = (
        json.loads(options.out.read_text()) if options.out.exists() else {"settings": settings(options), "rows": {}}
    )
    if done["settings"] != settings(options):
        raise SystemExit(f"{options.out} was written with other settings; give another --out")
    for rounds in options.train:
        if set(done["rows"].get(rounds, {})) >= set(options.test):
            continue
        start = time.monotonic()
        model = train(rounds, options, until)
        if model is None:
            print(f"the time is over; call it again with more --minutes to train with {rounds}")
            break
        done["rows"][rounds] = {tested: accuracy(model, tested, options) for tested in options.test}
        options.out.write_text(json.dumps(done, indent=1))
        print(f"  {rounds} took {time.monotonic() - start:.0f} s", flush=True)
    show({row: done["rows"][row] for row in options.train if row in done["rows"]}, options.test)


if __name__ == "__main__":
    main()

"""Read numbers off images: a Vision Transformer's encoder with the decoder of a text model.

    python examples/make_images.py numbers --side-by-side 3
    python examples/read_numbers.py numbers

Each image shows one to three handwritten digits beside each other, and the model writes the number. The blocks are
those of the package: `PatchEmbedding` and `Encoder` read the image, `Decoder` attends to their output and writes digit
by digit. The program prints the share of the test images whose number is entirely right.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from qkv import Decoder, Encoder, PatchEmbedding

END = 10
"""After the digits 0 to 9: starts and ends every number."""
IGNORED = -100


class NumberReader(nn.Module):
    """Images [B, 1, h, w] and the digits so far [B, T] to logits of the next ones [B, T, 11]."""

    def __init__(self, image_size: tuple[int, int], patch: int, d_model: int, layers: int) -> None:
        super().__init__()
        self.patches = PatchEmbedding(image_size, channels=1, size=patch, d_model=d_model, class_token=False)
        self.encoder = Encoder(d_model, layers, 4, dropout=0.0, positions="none", residual="pre")
        self.tokens = nn.Embedding(END + 1, d_model)
        self.decoder = Decoder(d_model, layers, 4, dropout=0.0, residual="pre")
        self.output = nn.Linear(d_model, END + 1)

    def forward(self, images: Tensor, written: Tensor) -> Tensor:
        return self.output(self.decoder(self.tokens(written), self.encoder(self.patches(images))))

    @torch.no_grad()
    def read(self, images: Tensor, longest: int) -> list[str]:
        """The likeliest next digit again and again, until END."""
        written = torch.full((len(images), 1), END)
        for _ in range(longest + 1):
            following = self(images, written)[:, -1].argmax(dim=-1, keepdim=True)
            written = torch.cat([written, following], dim=1)
        rows = (row[1:] for row in written.tolist())
        return ["".join(map(str, row[: row.index(END)] if END in row else row)) for row in rows]


def load(path: Path) -> tuple[Tensor, list[str]]:
    data: Any = np.load(path)
    images = torch.from_numpy(data["images"])[:, None].float() / 127.5 - 1
    return images, [str(label) for label in data["labels"]]


def targets(labels: list[str], longest: int) -> Tensor:
    rows = [[*map(int, label), END] for label in labels]
    return torch.tensor([row + [IGNORED] * (longest + 1 - len(row)) for row in rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--updates", type=int, default=1500)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--patch", type=int, default=4)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    images, labels = load(options.folder / "train.npz")
    test_images, test_labels = load(options.folder / "test.npz")
    longest = max(map(len, labels))
    wanted = targets(labels, longest)
    model = NumberReader((images.shape[2], images.shape[3]), options.patch, options.width, options.layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, options.updates)
    for update in range(1, options.updates + 1):
        rows = torch.randint(len(images), (options.batch,))
        known = wanted[rows].masked_fill(wanted[rows] == IGNORED, END)
        written = F.pad(known[:, :-1], (1, 0), value=END)
        loss = F.cross_entropy(model(images[rows], written).transpose(1, 2), wanted[rows], ignore_index=IGNORED)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if update % 100 == 0:
            print(f"update {update}: loss {loss.item():.4f}", flush=True)
    model.eval()
    right = sum(own == label for own, label in zip(model.read(test_images, longest), test_labels, strict=True))
    print(f"{right} of {len(test_labels)} numbers right ({100 * right / len(test_labels):.1f} %)")


if __name__ == "__main__":
    main()

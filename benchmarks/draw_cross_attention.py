"""Draw how the decoders of several models attend to one source: a panel each, outputs down, source tokens to the right.

    python benchmarks/draw_cross_attention.py OUT.svg TEXT NAME=RUN [NAME=RUN ...]

Each panel is the head of the last layer that is surest of where it attends, while greedy search decodes TEXT.
"""

import argparse
from pathlib import Path

import torch
from torch import Tensor

from qkv import Translator, capture_attention
from qkv.visual.panels import draw_panels
from qkv.visual.svg import SAMPLE_HEIGHT, Entry

COLOUR = "#2166ac"
MOST = 110
"""Outputs that are drawn, of a model that does not end."""


def surest_head(run: str, text: str) -> Tensor:
    """[T, S]"""
    translator = Translator(run, engine="torch", search="greedy")
    with capture_attention(translator.models.loaded[0].model) as record:
        translator.translate(text)
    names = [name for name in record if "cross_attention" in name or name == "attention"]
    weights = record[names[-1]][0]
    return weights[weights.amax(-1).mean(-1).argmax(), :MOST]


def cells(panel: Tensor) -> list[str]:
    rows, columns = panel.shape
    seen = [
        f'<rect x="{column}" y="{row}" width="1" height="1" fill="{COLOUR}" opacity="{weight:.2f}"/>'
        for row, line in enumerate(panel.tolist())
        for column, weight in enumerate(line)
        if weight >= 0.05
    ]
    return [f'<rect width="{columns}" height="{rows}" fill="#8884"/>', *seen]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("text")
    parser.add_argument("runs", nargs="+", metavar="NAME=RUN")
    options = parser.parse_args()
    torch.set_num_threads(1)
    panels = {name: surest_head(run, options.text) for name, run in (each.split("=", 1) for each in options.runs)}
    sample = f'<rect width="{SAMPLE_HEIGHT}" height="{SAMPLE_HEIGHT}" fill="{COLOUR}"/>'
    legend = (Entry(sample, "weight of a source token"),)
    title = f"Attention to the source while {options.text[:40]} is decoded"
    options.out.write_text(draw_panels(panels, title, legend, cells), encoding="utf-8")


if __name__ == "__main__":
    main()

"""Figures for papers: what they show, in three formats, the same each time."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from qkv.core.errors import DataError, UsageError
from qkv.core.figures import LIGHT, SERIES, VARIABLES, figure_file
from qkv.data.alignments.words import WordAlignment
from qkv.visual.beam_tree import Node
from qkv.visual.depth import Depths, TokenDepth
from qkv.visual.drafts import DraftPass
from qkv.visual.figures.alignment import alignment_figure
from qkv.visual.figures.attention import attention_figure
from qkv.visual.figures.canvas import PaperFigure
from qkv.visual.figures.curves import every_schedule, group_name, half_width, learning_figure, schedule_figure
from qkv.visual.figures.parts import depth_figure, mask_figure, position_figure, wiring_figure
from qkv.visual.figures.searches import beam_figure, drafts_figure, passes_figure
from qkv.visual.figures.sinusoids import sinusoid_figure
from qkv.visual.figures.tables import head_map_figure, length_figure, speed_figure
from qkv.visual.passes import CanvasCell
from tests.support.speaker import speaker


def painted(figure: PaperFigure) -> Axes:
    axes = Figure(layout="constrained").add_subplot()
    figure.paint(axes)
    return axes


@pytest.mark.parametrize(("suffix", "begin"), [(".svg", b"<svg"), (".png", b"\x89PNG"), (".pdf", b"%PDF")])
def test_formats(suffix: str, begin: bytes, tmp_path: Path) -> None:
    figure = schedule_figure(every_schedule(40), 40, 16)
    for name in ("one", "two"):
        figure.write(tmp_path / f"{name}{suffix}")
    first, second = ((tmp_path / f"{name}{suffix}").read_bytes() for name in ("one", "two"))
    assert first.startswith(begin)
    assert first == second


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"written as .svg, .png or .pdf, not as .gif"):
        sinusoid_figure().write(tmp_path / "a.gif")
    assert not list(tmp_path.iterdir())


def test_no_placeholder_colour_is_left_on_paper() -> None:
    marks = {to_rgba(mark) for mark in VARIABLES}
    kept: list[Figure] = []

    def paint(axes: Axes) -> None:
        axes.plot([0, 1], [0, 1], "o-", color=SERIES[1])
        axes.bar([0], [1], color=SERIES[2])
        axes.fill_between([0, 1], [0, 0], [1, 1], color=SERIES[3])
        axes.annotate("a", (0, 0), color=SERIES[4])
        figure = axes.get_figure(root=True)
        assert isinstance(figure, Figure)
        kept.append(figure)

    figure_file(paint, 100, 100, "t", ".png")
    (axes,) = kept[0].axes
    colours: list[Any] = [axes.lines[0].get_color(), axes.patches[0].get_facecolor(), axes.texts[0].get_color()]
    colours += [*np.asarray(axes.collections[0].get_facecolor()), axes.spines["left"].get_edgecolor()]
    assert not marks & {to_rgba(colour) for colour in colours}
    assert to_rgba(colours[0]) == to_rgba(LIGHT[3 + 1])


def test_a_matrix_for_each_head_with_its_weights() -> None:
    saved = speaker(decoder_layers=2)
    axes = painted(attention_figure(saved, "aa ab", "ba bb cc", "cross", layer=2))
    names = [inner.get_xlabel() for inner in axes.child_axes]
    assert names == ["layer 2, head 1", "layer 2, head 2"]
    (cells,) = axes.child_axes[0].collections
    weights = np.zeros((4, 3))
    for colour, path in zip(np.asarray(cells.get_facecolor()), cells.get_paths(), strict=True):
        column, row = np.round(np.asarray(path.vertices)[:4].mean(axis=0)).astype(int)
        weights[row, column] = colour[3]
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=0.02)
    with pytest.raises(UsageError, match="has layers 1 to 2"):
        attention_figure(saved, "aa", "ba", "decoder", layer=3)


def test_alignments_one_below_the_other() -> None:
    weights = np.array([[0.9, 0.0, 0.1], [0.0, 0.25, 0.75]], dtype=np.float32)
    one = WordAlignment(["a<b", "c", "d"], ["x", "y & z"], weights)
    empty = WordAlignment([], [], np.zeros((0, 0), dtype=np.float32))
    axes = painted(alignment_figure({"one": one, "empty": empty, "two": one}, "Both"))
    assert [inner.get_xlabel() for inner in axes.child_axes] == ["one", "two"]
    alphas = sorted(
        round(float(colour[3]), 2) for colour in np.asarray(axes.child_axes[0].collections[0].get_facecolor())
    )
    assert alphas == [0.1, 0.25, 0.75, 0.9]
    assert alignment_figure({"empty": empty}, "Nothing").height > 0


def test_runs_that_differ_by_a_number_are_one_line_with_a_band(tmp_path: Path) -> None:
    for name, values in (("base-1", [3.0, 2.0]), ("base-2", [3.4, 2.2]), ("other", [4.0, 3.0, 2.5])):
        (tmp_path / name).mkdir()
        lines = [{"validation": 10 * (at + 1), "loss": value} for at, value in enumerate(values)]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (tmp_path / name / "metrics.jsonl").write_text(text, encoding="utf-8")
    runs = [tmp_path / name for name in ("base-1", "base-2", "other")]
    axes = painted(learning_figure(runs))
    labels = [str(line.get_label()) for line in axes.lines]
    assert labels == ["base (2 runs)", "other"]
    np.testing.assert_allclose(np.asarray(axes.lines[0].get_ydata(), dtype=float), [3.2, 2.1])
    (band,) = axes.collections
    top = float(np.asarray(band.get_paths()[0].vertices)[:, 1].max())
    assert top == pytest.approx(3.2 + 12.71 * np.std([3.0, 3.4], ddof=1) / np.sqrt(2))
    assert half_width([1.0, 1.0, 1.0]) == 0
    assert group_name(Path("runs/7")) == "7"
    with pytest.raises(UsageError, match="has no bleu at its validations; give one of loss, train_loss"):
        learning_figure(runs, "bleu")


def test_schedules_are_those_of_training() -> None:
    chosen = every_schedule(100)
    axes = painted(schedule_figure(chosen, 100, 64))
    rates = dict(zip([str(line.get_label()) for line in axes.lines], axes.lines, strict=True))
    assert list(rates) == list(chosen)
    warm = np.asarray(rates["linear"].get_ydata())
    assert np.argmax(warm) == 9, "after a tenth of the run"


def test_tables_of_speed(tmp_path: Path) -> None:
    table = tmp_path / "speed.tsv"
    table.write_text("name\tspeed\tscore\na\t10\t30\nb\t40\t29\n", encoding="utf-8")
    axes = painted(speed_figure(table))
    assert [text.get_text() for text in axes.texts] == ["a", "b"]
    table.write_text("name\tspeed\tscore\na\tfast\t30\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"speed.tsv:2: needs name, speed and score"):
        speed_figure(table)


def test_scores_by_length(tmp_path: Path) -> None:
    spans: list[dict[str, Any]] = [{"low": 1, "high": 1}, {"low": 2, "high": None}]
    bounds: dict[str, Any] = {"scores": {"bleu": 20.0}, "intervals": {"bleu": {"low": 18.0, "high": 23.0}}}
    found: dict[str, Any] = {
        "scores": {"bleu": {}},
        "length_in": "words",
        "by_length": [{**span, **bounds} for span in spans],
    }
    path = tmp_path / "system.json"
    path.write_text(json.dumps(found), encoding="utf-8")
    axes = painted(length_figure([path]))
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "2+"]
    with pytest.raises(UsageError, match="has no ter; give one of bleu"):
        length_figure([path], "ter")
    path.write_text("{}", encoding="utf-8")
    with pytest.raises(DataError, match="is not what qkv evaluate --json prints"):
        length_figure([path])


def test_the_map_of_heads(tmp_path: Path) -> None:
    heads = [
        {"layer": layer, "head": head, "place": [layer, head], "role": "mixed"} for layer in (1, 2) for head in (1, 2)
    ]
    path = tmp_path / "heads.json"
    path.write_text(json.dumps({"sides": {"encoder": {"heads": heads}}}), encoding="utf-8")
    axes = painted(head_map_figure(path, "encoder"))
    assert [text.get_text() for text in axes.texts] == ["1.1", "1.2", "2.1", "2.2"]
    with pytest.raises(DataError, match="has no cross"):
        head_map_figure(path, "cross")


def shown_texts(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def test_the_beam_on_paper_has_every_hypothesis() -> None:
    start = Node("START", 0.0, None, 0, 0, best=True)
    kept = [Node("ein", -0.5, start, 1, 0, best=True), Node("der", -1.5, start, 1, 1)]
    end = Node("END", -0.6, kept[0], 2, 0, finished=True, best=True, score=-0.3)
    axes = painted(beam_figure([start, *kept, end], "A beam"))
    assert {"ein", "-0.50", "der", "-1.50", "END", "score -0.30"} <= set(shown_texts(axes))
    # A box for each, and a line to each but the first.
    assert len(axes.patches) == 4 + 3
    dashed = [patch for patch in axes.patches if patch.get_linestyle() == "--"]
    assert len(dashed) == 1


def test_passes_and_drafts_on_paper() -> None:
    rows = [[CanvasCell(7, "ein", 0.9, True), CanvasCell(8, "Hund", 0.25, False)]]
    assert {"pass 1", "ein", "0.90", "Hund", "0.25"} == set(shown_texts(painted(passes_figure(rows, "Passes"))))
    drafts = [DraftPass(0, ["ein"], "Hund", ["Tier", "da"]), DraftPass(2, [], "END", [])]
    axes = painted(drafts_figure(drafts, "Drafts"))
    assert {"pass 2", "ein", "Hund", "Tier", "da", "END"} <= set(shown_texts(axes))
    assert len(axes.lines) == 2, "what was wrong is struck out"


def test_masks_and_positions_on_paper() -> None:
    mask = torch.ones(3, 3).tril().bool()
    (panel,) = painted(mask_figure({"causal": mask}, "Masks")).child_axes
    assert isinstance(panel, Axes)
    assert panel.get_title(loc="left") == "causal"
    (cells,) = panel.collections
    assert len(cells.get_paths()) == 6
    scores = torch.tensor([[1.0, torch.nan], [3.0, 2.0]])
    (panel,) = painted(position_figure({"a head": scores}, "Positions")).child_axes
    assert len(panel.collections[0].get_paths()) == 2, "the mean and NaN stay empty"


def test_wirings_and_depths_on_paper() -> None:
    axes = painted(wiring_figure({"last": torch.tensor([[0.0, 1.0], [0.0, 1.0]])}, "Wiring"))
    assert {"last", "S0", "S1", "D1", "D2"} == set(shown_texts(axes))
    depths = Depths([TokenDepth("a", 2)], [TokenDepth("b", 1)], 3, 3, "b")
    axes = painted(depth_figure(depths, "Depth"))
    assert {"read", "said", "a", "b"} <= set(shown_texts(axes))
    filled = [patch for patch in axes.patches if to_rgba(patch.get_facecolor())[3] > 0.5]
    assert (len(axes.patches), len(filled)) == (6, 3)

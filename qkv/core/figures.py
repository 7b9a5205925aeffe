"""Matplotlib charts as SVG that follows the reader's light or dark theme, or as PNG or PDF for paper.

Charts are painted in the placeholder colours below, which become CSS variables: a page that includes a chart defines
them (`--text`, `--faint`, `--line`, `--s0` to `--s7`), and a standalone chart brings its own.
"""

import io
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

from qkv.core.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TEXT, FAINT, LINE = "#010100", "#010101", "#010102"
SERIES = tuple(f"#0102{number:02x}" for number in range(8))
VARIABLES = {TEXT: "text", FAINT: "faint", LINE: "line", **{colour: f"s{n}" for n, colour in enumerate(SERIES)}}
# fmt: off
LIGHT = (
    "#1b1f24", "#59626c", "#d5dae0",
    "#2563b8", "#d9730d", "#2b7a4b", "#7a4bb3", "#b3263a", "#1593a5", "#8a6d1d", "#6b7480",
)
DARK = (
    "#e6e9ed", "#a0a9b4", "#39414b",
    "#78aef8", "#f0a36b", "#74c79a", "#bda2ec", "#f08795", "#63cfdd", "#d7bd6e", "#a9b2bd",
)
# fmt: on
TIP = "tip:"
"""An artist whose gid begins with this shows the rest of the gid as a tooltip."""
INSTALL = "charts need matplotlib; install it with: pip install 'qkv[visual]'"
PIXELS_PER_INCH = 72
FORMATS = (".svg", ".png", ".pdf")
"""What figures can be written as."""
PNG_DPI = 200
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "qkv",  # the same chart gives the same file
    "text.parse_math": False,  # a dollar sign is a dollar sign
    # Measured in the widest of the common fonts, text fits in whichever one the reader has.
    "font.family": ["DejaVu Sans", "sans-serif"],
    "font.size": 10,
    "text.color": TEXT,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": FAINT,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": LINE,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": TEXT,
    "ytick.labelcolor": TEXT,
    "legend.frameon": False,
}


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


@contextmanager
def _painted(paint: Callable[["Axes"], None], width: int, height: int) -> Iterator["Figure"]:
    """A figure of `width` x `height` pixels in the placeholder colours; saved inside, it has our style."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError(INSTALL) from error
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # the reader's fonts may have what ours has not
        figure = Figure((width / PIXELS_PER_INCH, height / PIXELS_PER_INCH), PIXELS_PER_INCH, layout="constrained")
        paint(figure.add_subplot())
        yield figure


def chart(paint: Callable[["Axes"], None], width: int, height: int, title: str) -> str:
    """An SVG element of `width` x `height` pixels, to be included in an HTML page.

    Args:
        paint: draws on the axes that it is given, which fill the chart.
        title: for screen readers; it is not drawn.
    """
    drawn = io.StringIO()
    with _painted(paint, width, height) as figure:
        metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(drawn, format="svg", transparent=True, metadata=metadata)
    body = drawn.getvalue().split("</defs>", 1)[1]  # without matplotlib's style, which would be that of the whole page
    body = re.sub(r"<defs>\s*<clipPath.*?</defs>| clip-path=\S+?(?=[ />])", "", body, flags=re.DOTALL)
    body = re.sub(r"#010[12]\w\w", lambda found: f"var(--{VARIABLES[found[0]]})", body.replace("xlink:href", "href"))
    body = re.sub(f"<g id=([\"']){TIP}(.*?)\\1>", r"<g><title>\2</title>", body, flags=re.DOTALL)
    return f'<svg viewBox="0 0 {width} {height}" role="img"><title>{escape(title)}</title>{body}'


def standalone_chart(paint: Callable[["Axes"], None], width: int, height: int, title: str) -> str:
    """The same as the text of an SVG file."""

    def theme(background: str, colours: tuple[str, ...]) -> str:
        values = "".join(f" --{name}: {value};" for name, value in zip(VARIABLES.values(), colours, strict=True))
        return f"svg {{ background: {background};{values} }}"

    dark = f"@media (prefers-color-scheme: dark) {{ {theme('#14171b', DARK)} }}"
    head, body = chart(paint, width, height, title).split(">", 1)
    head = head.replace("<svg", f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}"')
    return f"{head}><style>{theme('#fff', LIGHT)} {dark}</style>{body}"


def figure_file(paint: Callable[["Axes"], None], width: int, height: int, title: str, suffix: str) -> str | bytes:
    """The content of a file with this suffix: .svg follows the reader's theme, .png and .pdf are for paper."""
    if suffix == ".svg":
        return standalone_chart(paint, width, height, title)
    if suffix not in FORMATS:
        raise UsageError(
            f"a figure is written as {', '.join(FORMATS[:-1])} or {FORMATS[-1]}, not as {suffix or 'nothing'}"
        )
    drawn = io.BytesIO()
    with _painted(paint, width, height) as figure:
        for artist in figure.findobj():
            _recolour(artist)
        # Without dates, the same figure gives the same file.
        dates = {"CreationDate": None} if suffix == ".pdf" else {}
        figure.savefig(drawn, format=suffix[1:], dpi=PNG_DPI, facecolor="white", metadata={"Title": title, **dates})
    return drawn.getvalue()


def _recolour(artist: "Artist") -> None:
    """Give what is painted in a placeholder colour its colour on white."""
    from matplotlib.colors import to_rgba

    light = {to_rgba(mark)[:3]: to_rgba(colour)[:3] for mark, colour in zip(VARIABLES, LIGHT, strict=True)}

    def real(colour: Any) -> Any:
        red, green, blue, alpha = to_rgba(colour)
        return (*light.get((red, green, blue), (red, green, blue)), alpha)

    for name in ("color", "facecolor", "edgecolor", "markerfacecolor", "markeredgecolor"):
        get, set_ = getattr(artist, f"get_{name}", None), getattr(artist, f"set_{name}", None)
        if get is None or set_ is None:
            continue
        found = get()
        several = getattr(found, "ndim", 1) == 2 or isinstance(found, list)
        set_([real(each) for each in found] if several else real(found))

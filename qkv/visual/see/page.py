"""The standalone page: the built front end with the data of sentences in it."""

import html
import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

from qkv.core.outputs import write_output
from qkv.visual.see.record import as_record
from qkv.visual.see.sentence import SeenSentence

PLACE = '<script type="application/json" id="data">null</script>'
"""Where the built page has no data."""
FORMAT = 1
NOTEBOOK_HEIGHT = 820


class InsideView:
    """One text in one model, or in several to compare: `save` writes a page, a notebook shows it.

    Examples:
        >>> from pathlib import Path
        >>> from qkv import look_inside
        >>> view = look_inside("runs/reverse", "cab")
        >>> view.sentences[0].src_tokens
        ['c', 'a', 'b', '</s>']
        >>> view.save("cab.html")
        >>> Path("cab.html").stat().st_size < 2_000_000
        True
    """

    def __init__(self, sentences: Sequence[SeenSentence]) -> None:
        self.sentences = list(sentences)

    def html(self) -> str:
        """One HTML file: no request leaves it, and no text of it can run."""
        data = {"format": FORMAT, "records": [as_record(seen) for seen in self.sentences]}
        return _template().replace(PLACE, PLACE.replace("null", _inert(data)))

    def save(self, path: Path | str) -> None:
        """Write the page."""
        write_output(Path(path), self.html())

    def _repr_html_(self) -> str:
        """A frame of its own for notebooks: the page cannot reach the notebook, nor the notebook's styles the page."""
        return (
            f'<iframe sandbox="allow-scripts" width="100%" height="{NOTEBOOK_HEIGHT}" '
            f'style="border:0" title="qkv see" srcdoc="{html.escape(self.html())}"></iframe>'
        )


def _inert(data: object) -> str:
    """JSON in which no character can end the element that holds it."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@cache
def _template() -> str:
    return files("qkv.visual").joinpath("page", "see.html").read_text(encoding="utf-8")

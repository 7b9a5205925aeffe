"""The standalone page: the built front end with the data of sentences, or of runs, in it."""

import html
import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from qkv.core.outputs import write_output
from qkv.visual.see.record import as_record
from qkv.visual.see.run import run_record
from qkv.visual.see.sentence import SeenSentence

PLACE = '<script type="application/json" id="data">null</script>'
"""Where the built page has no data."""
FORMAT = 1
NOTEBOOK_HEIGHT = 820


class PageView:
    """Something that is shown on a page: `save` writes it, a notebook shows it."""

    def data(self) -> dict[str, Any]:
        """What the page shows, apart from the version of the format."""
        raise NotImplementedError

    def html(self) -> str:
        """One HTML file: no request leaves it, and no text of it can run."""
        return _template().replace(PLACE, PLACE.replace("null", _inert({"format": FORMAT, **self.data()})))

    def save(self, path: Path | str) -> None:
        """Write the page."""
        write_output(Path(path), self.html())

    def _repr_html_(self) -> str:
        """A frame of its own for notebooks: the page cannot reach the notebook, nor the notebook's styles the page."""
        return (
            f'<iframe sandbox="allow-scripts" width="100%" height="{NOTEBOOK_HEIGHT}" '
            f'style="border:0" title="qkv see" srcdoc="{html.escape(self.html())}"></iframe>'
        )


class InsideView(PageView):
    """One text in one model, or in several to compare.

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

    def data(self) -> dict[str, Any]:
        return {"records": [as_record(seen) for seen in self.sentences]}


class RunView(PageView):
    """The curves, norms and attention of one run, or of several to compare.

    Examples:
        >>> from qkv.visual.see.page import RunView
        >>> view = RunView(["runs/reverse"])
        >>> view.save("run.html")
        >>> [run["name"] for run in view.runs]
        ['reverse']
    """

    def __init__(self, folders: Sequence[Path | str]) -> None:
        self.runs = [run_record(Path(folder)) for folder in folders]
        if len({run["name"] for run in self.runs}) < len(self.runs):
            self.runs = [{**run, "name": f"{run['name']} ({place})"} for place, run in enumerate(self.runs, start=1)]

    def data(self) -> dict[str, Any]:
        return {"runs": self.runs}


def _inert(data: object) -> str:
    """JSON in which no character can end the element that holds it."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@cache
def _template() -> str:
    return files("qkv.visual").joinpath("page", "see.html").read_text(encoding="utf-8")

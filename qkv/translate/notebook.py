"""A translation as HTML, for notebooks: static, and every text in it escaped."""

import math
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qkv.translate.output import Translation

CELL = "padding:2px 8px;text-align:left;vertical-align:top"


def translation_html(found: "Translation") -> str:
    """Source, output with its tokens shaded by confidence, and the alternatives."""
    rows = [
        ("source", " ".join(_token(token, None) for token in found.src_tokens)),
        ("output", f'<b dir="auto">{escape(found.text)}</b>'),
        ("tokens", _tokens(found.tokens, found.token_scores)),
        ("score", f"{found.score:.4f}"),
        *((f"{place}.", _alternative(other)) for place, other in enumerate(found.alternatives, start=2)),
    ]
    cells = "".join(f'<tr><th style="{CELL}">{name}</th><td style="{CELL}">{cell}</td></tr>' for name, cell in rows)
    return f"<table>{cells}</table>"


def _alternative(other: "Translation") -> str:
    return f'<span dir="auto">{escape(other.text)}</span> ({other.score:.4f})'


def _tokens(tokens: Sequence[str], scores: Sequence[float]) -> str:
    """The darker, the surer; scores may be left out, or hold that of END as well."""
    known = [*scores[: len(tokens)], *[None] * (len(tokens) - len(scores))]
    return " ".join(_token(token, score) for token, score in zip(tokens, known, strict=True))


def _token(token: str, score: float | None) -> str:
    shade, tip = 0.0, ""
    if score is not None:
        shade, tip = 0.4 * math.exp(score), f' title="p = {math.exp(score):.3f}"'
    style = f"background:rgba(26,127,75,{shade:.2f});padding:1px 4px;border-radius:4px;font-family:monospace"
    return f'<bdi style="{style}"{tip}>{escape(token)}</bdi>'

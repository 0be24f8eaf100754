"""Small pictures as HTML: tables and bars, without scripts, styles of others, or addresses.

Whatever comes from data goes through `text`, which escapes it: a label may be `<script>`.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

# A notebook may be dark: colours are those of the text, with one of our own.
_COLOUR, _OTHER = "#3b6fb6", "#b6543b"
_CELL = "padding:2px 10px 2px 0;text-align:left;vertical-align:top;border:none"
_LONGEST = 60
_MOST_BARS = 60


def text(value: object) -> str:
    """A value as text that is no markup; long ones are cut."""
    found = str(value)
    return html.escape(found if len(found) <= _LONGEST else found[: _LONGEST - 1] + "…")


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A plain table; its cells are HTML already."""
    head = "".join(f'<th style="{_CELL};font-weight:600">{text(name)}</th>' for name in headings)
    body = "".join(
        "<tr>" + "".join(f'<td style="{_CELL}">{cell}</td>' for cell in row) + "</tr>"
        for row in rows
    )
    return f'<table style="border-collapse:collapse"><tr>{head}</tr>{body}</table>'


def card(title: str, facts: str, body: str = "") -> str:
    """A title, a line of facts and what belongs to them."""
    return (
        f'<div style="font-family:sans-serif;font-size:13px"><b>{text(title)}</b> '
        f'<span style="opacity:.7">{text(facts)}</span>{body}</div>'
    )


def joined(rows: NDArray[Any], values: ArrayLike, length: int) -> NDArray[np.float64]:
    """Sums of the values of rows as `bars` draws them, however many rows there are."""
    edges = _edges(length, min(length, _MOST_BARS))
    place = np.searchsorted(edges, rows, side="right") - 1
    return np.asarray(np.bincount(place, values, len(edges)), dtype=np.float64)


def _edges(length: int, most: int) -> NDArray[np.int64]:
    """Where the groups of neighbours begin."""
    return np.linspace(0, length, most + 1).astype(np.int64)[:-1]


def bars(values: ArrayLike, titles: Sequence[str] | None = None) -> str:
    """A row of small bars; those below zero hang down in another colour.

    Parameters
    ----------
    values
        Heights. Where there are too many, neighbours are joined.
    titles
        What each bar is called, shown where the pointer rests; not for joined ones.
    """
    heights = np.nan_to_num(np.asarray(values, dtype=np.float64))
    if len(heights) > _MOST_BARS:
        heights, titles = np.add.reduceat(heights, _edges(len(heights), _MOST_BARS)), None
    width, full = 4, 22
    top = max(float(heights.max(initial=0.0)), 0.0)
    low = min(float(heights.min(initial=0.0)), 0.0)
    scale = full / (top - low) if top > low else 0.0
    parts = []
    for n, height in enumerate(heights):
        size = abs(float(height)) * scale
        y = (top - max(float(height), 0.0)) * scale
        colour = _COLOUR if height >= 0 else _OTHER
        name = "" if titles is None else f"<title>{text(titles[n])}</title>"
        parts.append(
            f'<rect x="{n * width}" y="{y:.1f}" width="{width - 1}" height="{max(size, 0.3):.1f}" '
            f'fill="{colour}">{name}</rect>'
        )
    return (
        f'<svg width="{len(heights) * width}" height="{full}" role="img">'
        + "".join(parts)
        + "</svg>"
    )


def share_bar(share: float) -> str:
    """A share as a bar with its percentage."""
    width = 0.0 if not np.isfinite(share) else 60 * min(max(share, 0.0), 1.0)
    bar = f'<rect width="{width:.1f}" height="10" fill="{_COLOUR}"/>'
    return f'<svg width="62" height="10">{bar}</svg> {share:.0%}'

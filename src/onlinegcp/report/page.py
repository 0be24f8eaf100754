"""The page itself: template, style, scripts and data put into one HTML text without links."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

from onlinegcp import __version__

_SCRIPTS = ("charts.js", "timeline.js", "page.js")


def render(payload: dict[str, Any] | None, *, title: str, scripts: Sequence[str] = ()) -> str:
    """The page as one HTML text.

    Parameters
    ----------
    payload
        What `payload.build` made, or None for a page that is filled later.
    title
        Title of the browser window.
    scripts
        Further scripts, run after the page's own.
    """
    code = "\n".join([*map(_static, _SCRIPTS), *scripts])
    parts = {
        "policy": html.escape(_policy([code])),
        "version": __version__,
        "title": html.escape(title),
        "css": _static("page.css"),
        "noscript": _plain_summary(payload),
        "payload": embed(payload),
        "js": code,
    }
    page = _static("page.html")
    pieces = page.split("{{")
    out = [pieces[0]]
    # In one pass, so that nothing in the data can be taken for a placeholder.
    for piece in pieces[1:]:
        name, rest = piece.split("}}", 1)
        out += [parts[name], rest]
    return "".join(out)


def content_policy(page: str) -> str:
    """The content policy of a page made by `render`: its own script and nothing else may run."""
    return _policy([page.rpartition("<script>")[2].partition("</script>")[0]])


def _policy(scripts: Sequence[str]) -> str:
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
    hashes = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src {hashes}; img-src data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'"
    )


def embed(value: Any) -> str:
    """JSON that can stand inside a script element: no data can close it.

    Examples
    --------
    >>> embed({"label": "</script>"})
    '{"label":"\\\\u003c/script>"}'
    """
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def _plain_summary(payload: dict[str, Any] | None) -> str:
    """The summary for readers without JavaScript."""
    if payload is None:
        return ""
    lines = (
        f"<div><b>{html.escape(head)}</b><p>{html.escape(text)}</p></div>"
        for head, text in payload["model"]["summary"]
    )
    return "".join(lines)


@cache
def _static(name: str) -> str:
    return resources.files("onlinegcp.report").joinpath("static", name).read_text("utf-8")

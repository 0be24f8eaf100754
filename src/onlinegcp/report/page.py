"""The page itself: template, style, scripts and data put into one HTML text without links."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

from onlinegcp import __version__

# Modules, each after those it imports.
_SCRIPTS = (
    *("charts.js", "clock.js", "timeline.js", "state.js", "first.js", "patterns.js"),
    *("overtime.js", "unusual.js", "settings.js", "page.js"),
)
_IMPORT = re.compile(r'^import \{[^}]*\} from "[^"]+";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|let)\b)", re.MULTILINE)


def render(payload: dict[str, Any] | None, *, title: str, scripts: Sequence[str] = ()) -> str:
    """The page of a run as one HTML text.

    Parameters
    ----------
    payload
        What `payload.build` made, or None for a page that is filled later.
    title
        Title of the browser window.
    scripts
        Further modules, run after the page's own.
    """
    lines = [] if payload is None else payload["model"]["summary"]
    return _filled("page.html", payload, title, [*map(static_text, _SCRIPTS), *scripts], lines)


def render_sheet(
    payload: dict[str, Any], *, title: str, script: str, summary: Sequence[Sequence[str]]
) -> str:
    """A page of the same family that tells one thing: ranks, or a difference.

    Parameters
    ----------
    payload
        What its script draws.
    title
        Title of the browser window.
    script
        The module that draws it.
    summary
        Headings and sentences for readers without JavaScript.
    """
    return _filled(
        "sheet.html", payload, title, [static_text("charts.js"), static_text(script)], summary
    )


def _filled(
    template: str,
    payload: dict[str, Any] | None,
    title: str,
    modules: Sequence[str],
    summary: Sequence[Sequence[str]],
) -> str:
    code = bundle(modules)
    parts = {
        "policy": html.escape(_policy([code])),
        "version": __version__,
        "title": html.escape(title),
        "css": static_text("page.css"),
        "noscript": _plain(summary),
        "payload": embed(payload),
        "js": code,
    }
    pieces = static_text(template).split("{{")
    out = [pieces[0]]
    # In one pass, so that nothing in the data can be taken for a placeholder.
    for piece in pieces[1:]:
        name, rest = piece.split("}}", 1)
        out += [parts[name], rest]
    return "".join(out)


def bundle(modules: Sequence[str]) -> str:
    """Modules put into one script: their imports and exports mean nothing within one scope.

    Examples
    --------
    >>> bundle(["export const a = 1;\\n", 'import { a } from "./a.js";\\nlet b = a;\\n'])
    '"use strict";\\nconst a = 1;\\n\\nlet b = a;\\n'
    """
    return "\n".join(['"use strict";', *(_EXPORT.sub("", _IMPORT.sub("", m)) for m in modules)])


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


def _plain(summary: Sequence[Sequence[str]]) -> str:
    """The summary for readers without JavaScript."""
    lines = (
        f"<div><b>{html.escape(head)}</b><p>{html.escape(text)}</p></div>" for head, text in summary
    )
    return "".join(lines)


@cache
def static_text(name: str) -> str:
    """A file of the page."""
    return resources.files("onlinegcp.report").joinpath("static", name).read_text("utf-8")

"""The page of many streams: how they are, which are odd, and when many are odd at once.

One HTML file without scripts. It is given what it tells, and reads nothing itself.
"""

from __future__ import annotations

import html
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from onlinegcp import __version__
from onlinegcp.report.page import static_text
from onlinegcp.runlog import anomaly_of
from onlinegcp.runlog.told import score, sentence
from onlinegcp.storage.atomic import replacing
from onlinegcp.storage.printable import short, without_folders

MOST_ALARMS, MOST_STREAMS, MOST_BARS = 200, 500, 400


class Oddest(Protocol):
    """What is told of the oddest slices: `many.reading.Oddest`."""

    @property
    def steps(self) -> Sequence[Any]: ...

    @property
    def by_time(self) -> Mapping[Any, int]: ...


def write_overview(
    run: str | os.PathLike[str],
    facts: Mapping[str, Any],
    odd: Oddest,
    streams: Sequence[Mapping[str, Any]],
    out: str | os.PathLike[str] | None = None,
) -> Path:
    """Write the page; by default report.html in the run directory.

    Parameters
    ----------
    run
        The run directory.
    facts
        What is worth knowing about all streams together.
    odd
        The oddest slices.
    streams
        One row per stream, the oddest first.
    out
        The file.
    """
    own = Path(run) / "report.html"
    target = own if out is None else Path(out)
    with replacing(target, of_run=target.resolve() == own.resolve()) as file:
        file.write(render_overview(Path(run).name, facts, odd, streams).encode())
    return target


def render_overview(
    name: str, facts: Mapping[str, Any], odd: Oddest, streams: Sequence[Mapping[str, Any]]
) -> str:
    """The page as one HTML text."""
    by = str(facts["by"] or "stream")
    figures = {
        "streams": f"{facts['streams']:,}",
        "slices": f"{facts['slices']:,}",
        "flagged": f"{facts['flagged']:,}",
        "stopped": f"{len(facts['stopped']):,}",
    }
    tiles = "".join(f"<div><dt>{k}</dt><dd>{v}</dd></div>" for k, v in figures.items())
    lede = f"One model per {by}, from {facts['first']} to {facts['last']}."
    parts = [
        f'<section class="hero"><p class="eyebrow">many streams</p><h1>{_text(name)}</h1>'
        f'<p class="lede">{_text(lede)}</p><dl class="figures">{tiles}</dl></section>',
        _section("When", _when(odd.by_time), "Streams that were flagged, by time bin."),
        _section(
            "Oddest slices",
            _table([by, "time", "p", "severity", "what happened"], map(_alarm, odd.steps)),
            f"Of all streams together, the oddest first; at most {MOST_ALARMS} are shown.",
        ),
        _section(
            "Streams",
            _table(
                [by, "slices", "flagged", "labels", "last", "oddest slice"],
                map(_stream, streams[:MOST_STREAMS]),
            ),
            f"Those with most flagged slices first; {min(len(streams), MOST_STREAMS):,} of "
            f"{len(streams):,} are shown. One of them in full: onlinegcp report RUN --stream NAME",
        ),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'\">"
        f'<meta name="generator" content="onlinegcp {__version__}">'
        f"<title>{_text(name)} · onlinegcp</title>"
        f"<style>{static_text('page.css')}{_STYLE}</style></head>"
        f'<body><main class="wrap">{"".join(parts)}</main></body></html>\n'
    )


_STYLE = """
.scroll { overflow-x: auto; } .many { border-collapse: collapse; font-size: .875rem; width: 100%; }
.many th, .many td { text-align: left; padding: .35rem .75rem .35rem 0; vertical-align: top; }
.many th { color: var(--soft); } .many tr { border-bottom: 1px solid var(--line); }
.bars rect { fill: var(--accent); } .bars { width: 100%; height: 8rem; }
"""


def _when(by_time: Mapping[Any, int]) -> str:
    """Bars, one per time bin with an alarm, or the last of them."""
    times = sorted(by_time, key=str)[-MOST_BARS:]
    if not times:
        return "<p>No slice was flagged.</p>"
    most = max(by_time[time] for time in times)
    bars = "".join(
        f'<rect x="{k}" y="{100 - 100 * by_time[time] / most:.1f}" width=".8" '
        f'height="{100 * by_time[time] / most:.1f}">'
        f"<title>{_text(str(time))}: {by_time[time]:,}</title></rect>"
        for k, time in enumerate(times)
    )
    label = f"{_text(str(times[0]))} to {_text(str(times[-1]))}, at most {most:,}"
    return (
        f'<svg class="bars" viewBox="0 0 {max(len(times), 60)} 100" preserveAspectRatio="none" '
        f'role="img" aria-label="{label}">{bars}</svg><p class="note">{label}</p>'
    )


def _alarm(step: Any) -> list[str]:
    severity = anomaly_of(step).get("severity") or ""
    return [
        str(step["stream"]), str(step["time"]), f"{10.0 ** -score(step):.1e}", severity,
        sentence(step),
    ]  # fmt: skip


def _stream(row: Mapping[str, Any]) -> list[str]:
    waiting = f"{row['warming_up']} slices wait for the warm start to be over"
    told = waiting if row["warming_up"] else row["oddest"] or ""
    if row["problem"]:
        told = f"Stopped: {row['problem']}"
    return [
        str(row["stream"]), f"{row['slices']:,}", f"{row['flagged']:,}", row["labels"] or "",
        str(row["last"]), told,
    ]  # fmt: skip


def _section(title: str, content: str, note: str) -> str:
    return (
        f'<section><div class="head"><h2>{title}</h2><p class="note">{_text(note)}</p></div>'
        f"{content}</section>"
    )


def _table(headings: Sequence[str], rows: Any) -> str:
    head = "".join(f"<th>{_text(name)}</th>" for name in headings)
    body = "".join(
        "<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return (
        f'<div class="scroll"><table class="many"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _text(text: str) -> str:
    return html.escape(short(without_folders(text), 400))

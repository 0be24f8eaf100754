"""Write the tables of docs/choosing.md from results.csv: `python -m benchmarks.choosing`.

Numbers in that page are never typed by hand, and what it says about who is better is checked. Text
outside the two marks is left as it is.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from benchmarks.methods import CONTESTANTS, PLANTED, REAL
from benchmarks.records import RESULTS, ROOT

# What the page says: in this stream the first has a smaller error than each of the others.
CLAIMS: list[tuple[str, str, tuple[str, ...]]] = [
    ("stationary", "OnlineCP", ("OnlineGCP", "CPStream", "OLSTEC", "ACP", "GOCPTE", "RLST", "SDT")),
    ("stationary", "MAST", ("OnlineGCP",)),
    ("stationary", "POST", ("OnlineGCP",)),
    ("drift", "OnlineGCP", ("OnlineCP", "CPStream", "OLSTEC", "RLST", "SDT", "GOCPTE", "POST")),
    ("drift", "OnlineGCP", ("OnlineCP, .9", "MAST, .9", "POST, .9", "VBI", "Ensign")),
    ("drift", "OnlineCP, .9", ("OnlineCP", "MAST", "POST", "GOCPTE", "SamBaTen")),
    ("replaced", "OnlineGCP", ("Ensign", "VBI", "ACP", "CPStream, .8", "SDT", "OLSTEC")),
    ("replaced", "SeekAndDestroy", ("Ensign", "VBI", "ACP", "CPStream, .8")),
    ("replaced", "ACP", ("CPStream, .8", "OLSTEC", "SDT", "RLST", "OnlineCP, .9")),
    ("part-replaced", "OnlineGCP", ("ACP", "OLSTEC", "VBI", "CPStream, .8", "SDT")),
    ("part-replaced", "Ensign", ("SeekAndDestroy", "ACP", "OLSTEC", "VBI")),
    ("missing", "GOCPTE", ("OnlineGCP", "ACP", "POST", "VBI", "OnlineSGD")),
    ("missing", "OLSTEC, .98", ("OnlineGCP", "ACP", "POST", "VBI", "OnlineSGD")),
    ("outliers", "OnlineGCP, huber", ("OnlineGCP", "POST", "VBI", "Ensign", "GOCPTE")),
    ("outliers", "MAST", ("OnlineGCP",)),
    ("outliers", "OnlineCP", ("OnlineGCP",)),
    ("outliers", "Ensign", ("OnlineGCP",)),
    *((case, "OnlineGCP", ("VBI",)) for case in ("stationary", "drift", "missing", "outliers")),
    ("beijing", "ACP, .9", ("OnlineGCP",)),
    ("beijing", "OnlineGCP", ("OnlineSGD", "OLSTEC", "ACP", "GOCPTE", "POST", "VBI", "MAST")),
    ("manhattan", "OnlineGCP", ("RLST", "SDT", "VBI", "OnlineGCP, poisson")),
    ("chicago", "OnlineGCP", ("RLST", "SDT", "OnlineGCP, poisson")),
    ("flights", "OnlineGCP", ("RLST", "SDT", "VBI", "OnlineGCP, poisson")),
]

# Streams of which the page says that others are better than the default, and by what share of its
# error another may be without being named.
DOMINATED = ("stationary", "drift", "missing", "outliers", "beijing")
LEVEL = 0.005

PAGE = ROOT.parent / "docs" / "choosing.md"
BEGIN, END = "<!-- rows: begin -->", "<!-- rows: end -->"


def main() -> int:
    """Replace the tables of the page; with --check only say whether they are up to date."""
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    rows = latest()
    broken = [
        f"{case}: {first} is not better than {other}"
        for case, first, others in CLAIMS
        for other in others
        if not _error(rows, first, case) < _error(rows, other, case)
    ]
    broken += [
        f"{case}: {other} is better than OnlineGCP, and the page does not say so"
        for other, case in rows
        if case in (*PLANTED, *REAL)
        and case not in DOMINATED
        and _error(rows, other, case) < (1.0 - LEVEL) * _error(rows, "OnlineGCP", case)
    ]
    for line in broken:
        print(line)
    fresh = f"{before}{BEGIN}\n{_tables(rows)}\n{END}{after}"
    if "--check" in sys.argv:
        return 0 if fresh == text and not broken else 1
    PAGE.write_text(fresh)
    return 1 if broken else 0


def latest(path: Path = RESULTS) -> dict[tuple[str, str], dict[str, str]]:
    """The newest row of every method and stream."""
    with path.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["case"].startswith("methods/")]
    return {(row["method"], row["case"].removeprefix("methods/")): row for row in rows}


def _error(rows: dict[tuple[str, str], dict[str, str]], method: str, case: str) -> float:
    return float(rows[method, case]["median"])


def _tables(rows: dict[tuple[str, str], dict[str, str]]) -> str:
    return "\n\n".join(_table(rows, list(cases)) for cases in (PLANTED, REAL))


def _table(rows: dict[tuple[str, str], dict[str, str]], cases: list[str]) -> str:
    """Errors of all methods; the smallest of a column is bold, a star marks those stopped early."""
    best = {
        case: min((float(row["median"]) for (_, c), row in rows.items() if c == case), default=0.0)
        for case in cases
    }
    lines = [f"| | {' | '.join(cases)} | ms per slice |", "|---" * (len(cases) + 2) + "|"]
    for label, _, _ in CONTESTANTS:
        found = [rows.get((label, case)) for case in cases]
        if not any(found):
            continue
        cells = [_cell(row, best[case]) for row, case in zip(found, cases, strict=True)]
        lines.append(f"| {label} | {' | '.join(cells)} | {_times(found)} |")
    return "\n".join(lines)


def _cell(row: dict[str, str] | None, best: float) -> str:
    if row is None:
        return "-"
    value = float(row["median"])
    text = f"{value:.3f}".lstrip("0") if value < 10 else f"{value:.0f}"
    text += "\\*" if "stopped" in row["note"] else ""
    return f"**{text}**" if value == best else text


def _times(found: list[dict[str, str] | None]) -> str:
    times = [float(row["note"].split(" ms")[0]) for row in found if row is not None]
    low, high = (f"{t:.2g}" if t < 10 else f"{t:.0f}" for t in (min(times), max(times)))
    return low if low == high else f"{low} - {high}"


if __name__ == "__main__":
    sys.exit(main())

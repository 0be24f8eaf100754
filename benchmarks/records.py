"""Rows of results.csv: what was measured, by whom, when and on which machine."""

from __future__ import annotations

import csv
import datetime
import math
import platform
import subprocess
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from benchmarks.timing import Times

ROOT = Path(__file__).parent
RESULTS = ROOT / "results.csv"


@dataclass(frozen=True)
class Row:
    """One contestant in one case.

    `ratio` is this row's value divided by that of `against` (paired by round, see
    `timing.Times.over`); `target` bounds it, such as "<= 1.3" or ">= 20", or is empty.
    """

    case: str
    method: str
    median: float
    p20: float
    p80: float
    unit: str
    objective: str = ""
    against: str = ""
    ratio: float | None = None
    target: str = ""
    note: str = ""

    @property
    def met(self) -> str:
        """yes or no; empty where nothing was promised."""
        if not self.target:
            return ""
        sense, bound = self.target.split()
        found = self.median if self.ratio is None else self.ratio
        return (
            "yes" if (found <= float(bound) if sense == "<=" else found >= float(bound)) else "no"
        )


def measured(
    case: str, method: str, times: Times, unit: str, scale: float = 1.0, **rest: object
) -> Row:
    """A row from measured seconds (or bytes), `scale` turning them into `unit`."""
    values = (times.median * scale, times.p20 * scale, times.p80 * scale)
    return Row(case, method, *values, unit, **rest)  # type: ignore[arg-type]


COLUMNS = [
    "date",
    "commit",
    "machine",
    *(field.name for field in fields(Row) if field.name != "note"),
    "met",
    "note",
]


def source() -> dict[str, str]:
    """Where and when: what all rows of one run share."""
    date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M")
    return {"date": date, "commit": commit(), "machine": machine()}


def append(row: Row, source: dict[str, str], path: Path = RESULTS) -> None:
    """Add a row to the file, with where it comes from."""
    fresh = not path.exists()
    entry = source | asdict(row) | {"met": row.met}
    for name in ("median", "p20", "p80", "ratio"):
        entry[name] = "" if entry[name] is None else four_digits(entry[name])
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if fresh:
            writer.writeheader()
        writer.writerow(entry)


def four_digits(number: float) -> str:
    """The number with four significant digits and no exponent."""
    digits = max(0, 3 - math.floor(math.log10(abs(number)))) if number else 0
    return f"{float(f'{number:.4g}'):.{digits}f}"


def commit() -> str:
    """Short name of the commit, with a plus where the library differs from it."""

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", *words], cwd=ROOT.parent, capture_output=True, text=True, check=False
        ).stdout.strip()

    changed = git("status", "--porcelain", "--", "src", "benchmarks/*.py", "benchmarks/*/")
    return (git("rev-parse", "--short", "HEAD") or "unknown") + ("+" if changed else "")


def machine() -> str:
    """Processor, core count and Python version, in words."""
    model = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        values = dict(
            (part.strip() for part in line.split(":", 1))
            for line in information.read_text().splitlines()
            if ":" in line
        )
        model = values.get("model name", model)
        cores = sum(line.startswith("processor") for line in information.read_text().splitlines())
        family = values.get("cpu family", "?")
        model = f"{model} (family {family}), {cores} cores"
    return f"{model}, Python {platform.python_version()}"

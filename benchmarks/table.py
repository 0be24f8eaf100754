"""Write the latest rows of results.csv into docs/benchmarks.md: `python -m benchmarks.table`.

Numbers in that page are never typed by hand. Text outside the two marks is left as it is. The
race of all methods has a page of its own (`benchmarks.choosing`).
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from benchmarks.records import RESULTS, ROOT

PAGE = ROOT.parent / "docs" / "benchmarks.md"
BEGIN, END = "<!-- rows: begin -->", "<!-- rows: end -->"
HEADINGS = {
    "sgd_iteration": "One SGD iteration of the factor solve, against the C++ twin",
    "cp_als": "A sweep of sparse CP-ALS",
    "gcp_stratified": "An iteration of stratified GCP",
    "cp_apr": "CP-APR to a KKT tolerance of 1e-4",
    "memory": "Peak memory of a static solve, beyond the tensor",
    "startup": "Start-up",
    "events": "A parquet file to slices, on two cores",
    "labels": "A million labels never seen before",
    "streaming": "The paper's streaming method, against its authors' code",
    "auto": "The default solver, against the authors' code at the paper's settings",
    "auto_quality": "The default solver, against static fits of everything and under drift",
    "change": "Abrupt and unnoticed changes, and starts that miss a pattern",
    "alarms": "Alarms on labelled, planted and quiet data",
    "forgetting": "Learned forgetting, against one fixed factor and a bank of five",
    "rivals": "Methods of the related work, on their authors' demos",
    "forecast": "Forecasts, against what the slice a season ago held",
    "ranks": "Ranks found by themselves",
    "stream_memory": "Memory and time along a stream of 10,000 slices",
    "pages": "The report of very long runs",
    "huge_slice": "One slice of 10^13 cells",
    "chicago_full": "The whole Chicago stream",
    "gpu": "Solvers on an NVIDIA card, against one core",
    "slices": "A slice of unsorted cells, on two threads",
    "least_squares": "OnlineCP and CP-Stream, against pygenten's least-squares solvers",
    "cluster": "One process against two workers on the same machine",
    "cores": "Two threads against one, and one against before there were two",
    "many_cores": "One thread to sixteen, on a machine with 16 cores",
}
IN_PARTS = {"change"}  # measured part by part: what counts is the last run of every row


def main() -> int:
    """Replace the table of the page; with --check only say whether it is up to date."""
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    fresh = f"{before}{BEGIN}\n{_tables(_latest())}\n{END}{after}"
    if "--check" in sys.argv:
        return 0 if fresh == text else 1
    PAGE.write_text(fresh)
    return 0


def _latest(path: Path = RESULTS) -> list[dict[str, str]]:
    """The last run of every case, in the order of the headings."""
    with path.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["case"].split("/")[0] in HEADINGS]
    newest = {row["case"]: row["date"] for row in rows}
    kept = {
        (row["case"], row["method"]): row
        for row in rows
        if row["date"] == newest[row["case"]] or row["case"].split("/")[0] in IN_PARTS
    }
    names = list(HEADINGS)
    return sorted(kept.values(), key=lambda row: names.index(row["case"].split("/")[0]))


def _tables(rows: list[dict[str, str]]) -> str:
    parts = []
    for name, heading in HEADINGS.items():
        chosen = [row for row in rows if row["case"].split("/")[0] == name]
        if not chosen:
            continue
        sources = sorted({f"{row['date']} UTC, commit {row['commit']}" for row in chosen})
        machines = sorted({row["machine"] for row in chosen})
        parts += [
            f"### {heading}",
            "",
            f"{'; '.join(sources)}; {'; '.join(machines)}.",
            "",
            "| case | method | median | 20 % | 80 % | in | ratio | target | met | quality | note |",
            "|---|---|---:|---:|---:|---|---|---|---|---|---|",
        ]
        for row in chosen:
            ratio = f"{row['ratio']} x {row['against']}" if row["ratio"] else ""
            cells = [
                row["case"].split("/")[-1],
                row["method"],
                row["median"],
                row["p20"],
                row["p80"],
                row["unit"],
                ratio,
                row["target"],
                row["met"],
                row["objective"],
                row["note"],
            ]
            parts.append("| " + " | ".join(cells) + " |")
        parts.append("")
    return "\n".join(parts).rstrip()


if __name__ == "__main__":
    sys.exit(main())

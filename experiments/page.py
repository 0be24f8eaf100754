"""Write docs/experiments.md from the committed results: `python -m experiments.page`."""

from __future__ import annotations

import json
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

from experiments.console import HERE
from experiments.protocol import FROZEN_SLICES
from experiments.settings import PAPER, Settings

ORDER = ("gaussian", "poisson", "taxi", "taxi-manhattan", "chicago")
COMMANDS = {"taxi-manhattan": "taxi --source manhattan"}

ANSWERS = {True: "holds", False: "**does not hold**", None: "*not finished*"}

INTRODUCTION = """\
# The paper's experiments

*This page is written by `python -m experiments.page` from `experiments/results/*.json`.*

Section 6 of the paper has four experiments, and for each it claims that OnlineGCP, which sees one
slice at a time, does about as well as static methods that see all slices at once. Here they are
again, at the paper's sizes and hyperparameters (its Table 2), and for each claim whether it holds.

How it is measured:

- Every streaming method starts from the same static fit of the first slices (grey in the figures).
- Losses are summed over every cell of a slice and divided by its squared norm; the numbers below
  are means over the slices after the warm start. *Local*: with the factors as they were just after
  the slice. *Global*: with the final factors and the weights the slice got when it passed.
  *Prequential*: with the factors from before the slice (the paper does not report it). A static
  method has one loss, so local and global are the same.
- "Comparable" is not defined in the paper. Here it means: at most 5 % above the static method,
  where the 5 % are counted from the least loss there can be (a model equal to the data), because a
  Poisson loss has no natural zero; a score at most 0.05 lower (0.1 for the Poisson problem).
- *Score* is the congruence with the true factors, 1 for perfect recovery, time mode included.
- *Frozen warm start*: the starting factors, never updated, with the best weights for each slice. A
  streaming method whose prequential loss is not lower has learned nothing.
- CPU seconds are those of one thread, scoring included, on a machine shared with other work.

Run one yourself with `make experiment NAME=gaussian SCALE=paper` or
`python -m experiments.gaussian --scale paper`; without `SCALE` a small version runs in less than a
minute. An interrupted run goes on where it stopped.
"""

REMARKS: dict[str, str] = json.loads(
    (HERE / "results" / "remarks.json").read_text(encoding="utf-8")
)


def write_page(results: Path, page: Path) -> None:
    """Turn all summaries at paper scale in `results` into the page."""
    found = [results / f"{name}-paper.json" for name in ORDER]
    summaries = [json.loads(path.read_text(encoding="utf-8")) for path in found if path.exists()]
    parts = [INTRODUCTION, _overview(summaries)]
    parts += [_section(summary) for summary in summaries]
    parts.append(_settings())
    page.write_text("\n".join(parts), encoding="utf-8")


def _overview(summaries: list[dict[str, Any]]) -> str:
    return "\n".join(
        [
            "## Does it hold?",
            "",
            "What the paper says:",
            "",
            *_claims(summaries, by_paper=True),
            "",
            "What we looked at besides:",
            "",
            *_claims(summaries, by_paper=False),
            "",
        ]
    )


def _claims(summaries: list[dict[str, Any]], *, by_paper: bool) -> list[str]:
    lines = ["| experiment | claim | here | numbers |", "|---|---|---|---|"]
    for summary in summaries:
        name = f"[{summary['experiment']}](#{_anchor(summary['experiment'])})"
        for claim in summary["claims"]:
            if claim["by_paper"] == by_paper:
                answer = ANSWERS[claim["holds"]]
                lines.append(f"| {name} | {claim['text']} | {answer} | {claim['evidence']} |")
    return lines


def _section(summary: dict[str, Any]) -> str:
    name, data = summary["experiment"], summary["data"]
    lines = [f"({_anchor(name)})=", f"## {summary['title']}", ""]
    if data["note"]:
        lines += [f"**{data['note']}.**", ""]
    if name in REMARKS:
        lines += [REMARKS[name], ""]
    lines += [f"![{summary['title']}](figures/{name}.png)", ""]
    lines += [
        f"{data['nonzeros']:,} nonzeros, density {data['density']:.2%}; warm start from "
        f"{data['warm_start_slices']} slices; least possible loss {data['least_loss']:.5g}; seed "
        f"{summary['seed']}; {summary['machine']}; {summary['date']}; "
        f"`python -m experiments.{COMMANDS.get(name, name)} --scale paper`.",
        "",
        "| method | kind | local | global | prequential | score | CPU s per slice | note |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for method, numbers in summary["methods"].items():
        keys = ("local", "global", "prequential", "final_score")
        cells = ["" if numbers.get(key) is None else f"{numbers[key]:.5g}" for key in keys]
        cells += [_time(numbers), _note(numbers)]
        lines.append(f"| {method} | {numbers['kind']} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def _time(numbers: dict[str, Any]) -> str:
    if numbers["kind"] == "static":
        return f"{numbers['total_cpu_seconds']:.0f} s in all"
    seconds = numbers["cpu_seconds_per_slice"]
    return "" if seconds is None else f"{seconds:.3g}"


def _note(numbers: dict[str, Any]) -> str:
    if numbers["kind"] == "static":
        return str(numbers["message"]).rstrip(".")
    if numbers["kind"] == "frozen":
        return f"on {FROZEN_SLICES} slices spread over the stream"
    undone = [numbers.get(f"{part}_epochs_undone", 0) for part in ("weight", "factor")]
    if not any(undone):
        return ""
    return f"epochs taken back: {undone[0]:,} of weights, {undone[1]:,} of factors"


def _settings() -> str:
    names = [field.name for field in fields(Settings)]
    lines = [
        "## Hyperparameters",
        "",
        "The paper's Table 2 and the sample counts of its text, as parameters of `OnlineGCP`. A "
        "number of samples above what a slice has takes every cell.",
        "",
        "| parameter | " + " | ".join(PAPER) + " |",
        "|---" * (len(PAPER) + 1) + "|",
    ]
    for name in names:
        cells = [getattr(settings, name) for settings in PAPER.values()]
        shown = ["all" if c == 10**9 else "none" if c is None else f"{c:g}" for c in cells]
        lines.append(f"| `{name}` | " + " | ".join(shown) + " |")
    return "\n".join([*lines, ""])


def _anchor(name: str) -> str:
    return f"experiment-{name}"


def main() -> int:
    """Write the page."""
    write_page(HERE / "results", HERE.parent / "docs" / "experiments.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())

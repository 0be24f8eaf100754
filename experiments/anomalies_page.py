"""docs/anomalies.md, from experiments/results/anomalies.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

INTRODUCTION = """\
# Anomalies

*This page is written by `python -m experiments.anomalies --page` from
`experiments/results/anomalies.json`.*

Before a slice is learned, `score_slice` says how odd it is and why:

```python
from onlinegcp.anomaly import AnomalyTracker, score_slice

tracker = AnomalyTracker(period=7)  # days with a weekly rhythm
for day in stream:
    anomaly = score_slice(model, day, labels, level=0.01, history=tracker)
    tracker.update(anomaly)
    if anomaly.flagged:
        print(day.time, anomaly.kind, anomaly.cells[0])
    model.partial_fit(day)
```

Runs (`onlinegcp fit`, `onlinegcp update`) do the same and keep the result in `steps.jsonl`.

## What is judged

**Volume.** The total, as if no cell were missing, against a forecast from recent totals: their
median over 28 slices, plus the median departure of the last 8 slices of the same phase where there
is a period. Counts are forecast as square roots. The p-value comes from the forecast errors of the
last 365 slices, from both sides.

**Pattern.** Weights are fitted to the slice, so that volume and the known patterns are taken out,
and what is left is the deviance of the cells. Two judges look at it:

1. *The model.* If the slice came from the model, the deviance would have a mean, a variance and a
   skewness that can be summed over the cells: exactly up to two million cells, from cells drawn
   from the model above that, with the error of the draws added to the variance. Fitting the weights
   changes all three: the part of the deviance that is correlated with the slopes of the loss
   disappears, the fit takes off about one per weight, and bent losses bias the weights (Cox and
   Snell 1968). The p-value is the tail of a Pearson type III distribution with these moments.
2. *The neighbours.* Real data never come from the model. The tracker keeps the standardised scores
   of the last 365 slices, takes off the usual percentage by which the deviance exceeds what the
   model expects, and asks how far out the new slice is: by rank up to their 90 % point, above it
   by a normal tail through their 90 % and 98 % points, which the few oddest slices do not move.
   With fewer than 150 slices it is a Student distribution around their median.

The p-value is the larger of the two, so that an alarm needs a slice that is odd for the model and
odd among its neighbours. Gaussian, gamma, Rayleigh, Huber, beta and your own losses leave the
scale of the noise open, or have no likelihood: there the score is the logarithm of the deviance per
degree of freedom and the neighbours judge alone (for Gaussian together with an F test).

Two losses need a remark. With logits, the likelihood equations make the deviance of yes-or-no data
a function of the fitted weights alone, which says nothing of the fit; there the statistic is the
sum of |x - p| over its standard deviation. And the solver gives logit weights a weak prior, which
this calculation ignores: without a tracker about 4 % of slices have p < 1 %.

A slice is flagged when either p-value is below 1 - sqrt(1 - level), 0.5 % at level 1 %: together
the two raise an alarm for 1 % of ordinary slices. Nothing is flagged before the tracker has seen
ten slices. `z` is the normal quantile of the p-value and goes on where p underflows.

**Why.** `cells` are those with the largest excess of deviance over its expectation, with the
p-value of the cell alone; `modes` the rows that collect most of it; `components` the changes of
weights against their recent mean, in standard deviations. Cells in rows that the model does not
have yet count for the volume only. When counts are flagged for their volume, `cells` and `modes`
compare the slice with an ordinary one (the usual weights, the expected total): they say where the
events are missing, or where they come from.
"""


def write_page(results: Path, page: Path) -> None:
    """Turn the stored numbers into the page."""
    stored = json.loads(results.read_text(encoding="utf-8"))
    parts = [INTRODUCTION, _simulated(stored), _chicago(stored)]
    page.write_text("\n".join(parts), encoding="utf-8")


def _simulated(stored: dict[str, Any]) -> str:
    lines = [
        "## Alarm rates on data from the model",
        "",
        f"Slices drawn from the model that scores them, level {stored['level']:.0%}, with a tracker"
        " that starts empty. Pattern and volume: share of slices with a p-value below 1 %.",
        "",
        "| loss | slice | rank | mean total | slices | flagged | pattern | volume |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in stored["simulated"]:
        shape = " x ".join(map(str, row["shape"]))
        lines.append(
            f"| {row['loss']} | {shape} | {row['rank']} | {row['total']:g} | {row['slices']} | "
            f"{row['flagged']:.2%} | {row['pattern']:.2%} | {row['volume']:.2%} |"
        )
    return "\n".join([*lines, ""])


def _chicago(stored: dict[str, Any]) -> str:
    chicago, seconds = stored["chicago"], stored["cpu_seconds"]
    years = chicago["by_year"]
    lines = [
        "## Chicago, 2001 to 2018",
        "",
        f"Crime reports by hour x area x type (24 x 77 x 32), {chicago['days']:,} days scored, each"
        f' before it was learned; `OnlineGCP({stored["rank"]}, loss="poisson")`, warm start of'
        f" {stored['warm']} days, `AnomalyTracker(period={stored['period']})`, one pass."
        f" Scoring took {1e3 * seconds['score']:.1f} ms of CPU time per day on a busy machine,"
        f" learning {1e3 * seconds['learn']:.1f} ms ({stored['machine']}, {stored['date']}).",
        "",
        f"At level {stored['level']:.0%} {chicago['flagged']:.1%} of the days are flagged"
        f" ({chicago['flagged_pattern']:.1%} for their pattern, {chicago['flagged_volume']:.1%} for"
        f" their volume; by year between {min(years.values()):.1%} and {max(years.values()):.1%})."
        f" The likelihood alone, without neighbours, would have flagged"
        f" {chicago['model_alone']:.1%} for their pattern.",
        "",
        "Where the days known to be odd land, among all days (the likelihood alone ranks by the"
        " excess in standard deviations under the model; z also asks how large it was lately):",
        "",
        "| day | what | total (expected) | pattern z | rank | rank by likelihood alone | volume z |"
        " rank |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['date']} | {row['what']} | {row['total']:.0f} ({row['expected_total']:.0f}) | "
        f"{row['z']:.1f} | {row['rank']} | {row['own_rank']} | {row['volume_z']:.1f} | "
        f"{row['volume_rank']} |"
        for row in chicago["odd"]
    ]
    lines += ["", "The oddest patterns, and the cell that contributes most:", ""]
    lines += ["| day | z | p | cell | observed | expected |", "|---|---|---|---|---|---|"]
    for row in chicago["pattern"]:
        cell = row["cells"][0]
        lines.append(
            f"| {row['date']} | {row['z']:.1f} | {row['p']:.1e} | {', '.join(cell['labels'])} | "
            f"{cell['observed']:.0f} | {cell['expected']:.2g} |"
        )
    lines += ["", "The oddest volumes:", "", "| day | z | total | expected |", "|---|---|---|---|"]
    lines += [
        f"| {row['date']} | {row['volume_z']:.1f} | {row['total']:.0f} | "
        f"{row['expected_total']:.0f} |"
        for row in chicago["volume"]
    ]
    holidays = sum(row["date"].endswith(("-01-01", "-12-25")) for row in chicago["volume"])
    lines += [
        "",
        f"{holidays} of these {len(chicago['volume'])} are New Year's Day or Christmas: a weekly"
        " forecast knows no holidays.",
    ]
    return "\n".join([*lines, ""])

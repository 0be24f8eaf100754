"""Anomaly scores: known odd days in Chicago, and alarm rates on data drawn from a model.

`python -m experiments.anomalies` scores every day before learning it, repeats the simulation, and
writes `experiments/results/anomalies.json` and docs/anomalies.md; `--page` only writes the page.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from experiments.anomalies_page import write_page
from experiments.console import HERE, ProgressReport
from experiments.data import MissingData
from experiments.streams import data_folder
from onlinegcp.anomaly import Anomaly, AnomalyTracker, score_slice
from onlinegcp.ktensor import KTensor
from onlinegcp.losses import get_loss
from onlinegcp.slices import Slice
from onlinegcp.streaming import OnlineGCP

RANK, WARM, PERIOD, LEVEL = 20, 10, 7, 0.01
DAY_0 = datetime.date(2001, 1, 1)
SHAPE = (24, 77, 32)
ODD_DAYS = {
    1018: "narcotics arrests in Austin",
    1019: "narcotics arrests in Austin",
    3286: "hole in the data: 10 events",
    3684: "blizzard",
}
# Loss, shape, rank, mean total; counts per slice are low on purpose.
SIMULATED = (
    ("poisson", (12, 10), 3, 30.0),
    ("poisson", (24, 30), 5, 300.0),
    ("bernoulli_odds", (12, 10), 3, 20.0),
    ("bernoulli_odds", (24, 30), 5, 300.0),
    ("negative_binomial", (12, 10), 3, 100.0),
    ("gaussian", (12, 10), 3, 30.0),
)


def read_days(folder: Path, count: int | None = None) -> tuple[list[Slice], list[list[str]]]:
    """All days of the Chicago stream as slices of counts, and the labels of their modes."""
    path = folder / "chicago_crime" / "chicago_crime_counts.parquet"
    if not path.exists():
        raise MissingData(f"{path} is not on this machine.")
    names = json.loads((path.parent / "labels.json").read_text(encoding="utf-8"))
    labels = [[f"{h:02d}:00" for h in range(24)], names["area_labels"], names["type_labels"]]
    table = pl.read_parquet(path)
    days = int(table["day"].max()) + 1 if count is None else count  # type: ignore[arg-type]
    index = np.stack([table[name].to_numpy() for name in ("hour", "area", "type")], axis=1)
    value = table["count"].to_numpy().astype(np.float64)
    bounds = np.searchsorted(table["day"].to_numpy(), np.arange(days + 1))
    slices = [
        Slice(index[a:b].astype(np.int32), value[a:b], SHAPE, time=DAY_0 + datetime.timedelta(d))
        for d, (a, b) in enumerate(pairwise(bounds))
    ]
    return slices, labels


def score_days(
    slices: Sequence[Slice], labels: list[list[str]], report: ProgressReport
) -> tuple[list[Anomaly | None], dict[str, float]]:
    """Score every day after the warm start, then learn it; also the seconds either took."""
    model = OnlineGCP(RANK, "poisson", init_slices=WARM, random_state=0)
    tracker = AnomalyTracker(PERIOD)
    found: list[Anomaly | None] = []
    seconds = {"score": 0.0, "learn": 0.0}
    report.begin("Chicago", len(slices))
    for number, x in enumerate(slices):
        start = time.process_time()
        if number < WARM:
            tracker.update_volume(x)
            found.append(None)
        else:
            anomaly = score_slice(model, x, labels, level=LEVEL, history=tracker)
            tracker.update(anomaly)
            found.append(anomaly)
        scored = time.process_time()
        model.partial_fit(x)
        seconds["score"] += scored - start
        seconds["learn"] += time.process_time() - scored
        report.advance(number + 1, "")
    report.end("")
    return found, {name: spent / len(slices) for name, spent in seconds.items()}


def summarise(slices: Sequence[Slice], found: Sequence[Anomaly | None]) -> dict[str, Any]:
    """Alarm rates, rankings and the odd days."""
    scored = [n for n, anomaly in enumerate(found) if anomaly is not None]
    anomalies = [anomaly for anomaly in found if anomaly is not None]
    z = np.array([a.z for a in anomalies])
    own = np.array([a.evidence.score for a in anomalies])
    volume = np.array([a.volume_z for a in anomalies])
    place = {n: k for k, n in enumerate(scored)}

    def row(n: int) -> dict[str, Any]:
        k = place[n]
        anomaly = anomalies[k]
        return {
            "day": n,
            "date": slices[n].time.isoformat(),
            "total": slices[n].total,
            "expected_total": round(anomaly.expected_total, 1),
            "z": round(float(z[k]), 2),
            "p": float(f"{anomaly.p:.3g}"),
            "rank": int(1 + np.count_nonzero(z > z[k])),
            "own_z": round(float(own[k]), 2),
            "own_rank": int(1 + np.count_nonzero(own > own[k])),
            "volume_z": round(float(volume[k]), 2),
            "volume_p": float(f"{anomaly.volume_p:.3g}"),
            "volume_rank": int(1 + np.count_nonzero(np.abs(volume) > abs(volume[k]))),
            "flagged": anomaly.flagged,
            "kind": anomaly.kind,
            "cells": [
                {
                    "labels": cell["labels"],
                    "observed": cell["observed"],
                    "expected": float(f"{cell['expected']:.3g}"),
                    "share": round(cell["share"], 3),
                }
                for cell in anomaly.cells[:3]
            ],
        }

    limit = 1.0 - np.sqrt(1.0 - LEVEL)
    kinds = [a.kind for a in anomalies]
    years = np.array([slices[n].time.year for n in scored])
    flagged = np.array([a.flagged for a in anomalies])
    return {
        "days": len(anomalies),
        "flagged": float(np.mean(flagged)),
        "flagged_pattern": kinds.count("pattern") / len(kinds),
        "flagged_volume": kinds.count("volume") / len(kinds),
        "model_alone": float(np.mean(own > 2.576)),
        "limit": float(limit),
        "by_year": {
            str(year): round(float(flagged[years == year].mean()), 4) for year in np.unique(years)
        },
        "odd": [{**row(n), "what": what} for n, what in ODD_DAYS.items() if n in place],
        "pattern": [row(scored[k]) for k in np.argsort(-z)[:12]],
        "volume": [row(scored[k]) for k in np.argsort(-np.abs(volume))[:12]],
    }


def simulate(count: int, report: ProgressReport) -> list[dict[str, Any]]:
    """Alarm rates at level 1 % on slices drawn from the model that scores them."""
    rows = []
    report.begin("simulation", len(SIMULATED) * count)
    for case, (name, shape, rank, total) in enumerate(SIMULATED):
        rng = np.random.default_rng(case)
        loss = get_loss(name)
        factors = [rng.dirichlet(np.full(length, 0.3), rank).T for length in shape]
        weights = rng.gamma(3.0, 1.0, rank)
        weights *= total / weights.sum()
        model = OnlineGCP(rank, name, init=KTensor(weights, factors))

        def draw(
            rng: np.random.Generator = rng,
            loss: Any = loss,
            weights: Any = weights,
            factors: Any = factors,
        ) -> Slice:
            row = weights * rng.gamma(20.0, 0.05, len(weights))
            return Slice.dense(loss.sample(rng, KTensor(row, factors).full()))

        model.partial_fit(draw())
        factors[:] = model.factors_
        tracker, flags, small = AnomalyTracker(), 0, np.zeros(2)
        for number in range(count + 10):
            anomaly = score_slice(model, draw(), history=tracker, level=LEVEL, top=1)
            tracker.update(anomaly)
            if number >= 10:
                flags += anomaly.flagged
                small += (anomaly.p < LEVEL, anomaly.volume_p < LEVEL)
                report.advance(case * count + number - 9, name)
        rows.append(
            {
                "loss": name,
                "shape": list(shape),
                "rank": rank,
                "total": total,
                "slices": count,
                "flagged": flags / count,
                "pattern": small[0] / count,
                "volume": small[1] / count,
            }
        )
    report.end("")
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Run both parts and write the page."""
    from rich.console import Console

    parser = argparse.ArgumentParser(prog="python -m experiments.anomalies", description=__doc__)
    parser.add_argument("--page", action="store_true", help="only write the page")
    parser.add_argument("--data", type=Path, default=data_folder())
    parser.add_argument("--days", type=int, help="stop after this many days")
    parser.add_argument("--simulated", type=int, default=3000, help="slices per simulation")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "anomalies.json")
    options = parser.parse_args(arguments)
    if not options.page:
        report = ProgressReport(Console())
        slices, labels = read_days(options.data, options.days)
        found, seconds = score_days(slices, labels, report)
        summary = {
            "date": datetime.date.today().isoformat(),
            "machine": f"{platform.machine()}, Python {platform.python_version()}",
            "rank": RANK,
            "warm": WARM,
            "period": PERIOD,
            "level": LEVEL,
            "cpu_seconds": {name: round(spent, 5) for name, spent in seconds.items()},
            "chicago": summarise(slices, found),
            "simulated": simulate(options.simulated, report),
        }
        text = json.dumps(summary, indent=1)
        options.out.write_text(text + "\n", encoding="utf-8")
    if options.out == HERE / "results" / "anomalies.json":
        write_page(options.out, HERE.parent / "docs" / "anomalies.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())

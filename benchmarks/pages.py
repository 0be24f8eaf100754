"""The report of very long runs: peak memory must not follow the number of slices.

Lines are written by the run's own writer, of made-up hours with ten patterns of which one in a
hundred is an alarm. Each report is written by a process of its own; the second one of a run finds
the digest that the first has left.
"""

from __future__ import annotations

import datetime
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.alone import alone, resident
from benchmarks.records import Row

LENGTHS = (10_000, 100_000, 1_000_000)
RANK = 10
SECONDS = 3.0  # for the report of a run that somebody has read
DIFFERENT = 5_000  # lines, which then repeat with other times


def run(*, quick: bool = False, only: str | None = None) -> Iterator[Row]:
    """Peak memory of the report, by the number of slices."""
    if only not in (None, "report"):
        return
    first: float | None = None
    for length in LENGTHS[:2] if quick else LENGTHS:
        with tempfile.TemporaryDirectory() as folder:
            write_run(Path(folder, "long.run"), length)
            found, again = alone("pages", folder), alone("pages", folder)
        peak = found["peak"] * 1e-6
        note = (
            f"{found['seconds']:.0f} s of processor time, page {found['page'] * 1e-6:.1f} MB, "
            f"{found['points']} points, rank {RANK}"
        )
        against = "" if first is None else f"{LENGTHS[0]:,} slices"
        ratio, target = (None, "") if first is None else (peak / first, "<= 1.5")
        first = peak if first is None else first
        yield Row(
            "pages/report", f"{length:,} slices", peak, peak, peak, "MB peak", "",
            against, ratio, target, note,
        )  # fmt: skip
        seconds = again["whole"]
        yield Row(
            "pages/again", f"{length:,} slices", seconds, seconds, seconds, "s of processor time",
            target=f"<= {SECONDS:g}", note=f"{again['peak'] * 1e-6:.0f} MB peak",
        )  # fmt: skip


def write_run(path: Path, length: int) -> None:
    """A run directory of so many hours, whose model is not learned but made up."""
    from onlinegcp import runlog
    from onlinegcp.storage.archive import write_archive

    rng = np.random.default_rng(0)
    runlog.write_run_json(
        path,
        {
            "model": {"method": "OnlineGCP", "parameters": {"rank": RANK, "loss": "poisson"}},
            "modes": ["from", "to"],
            "anomaly": {"level": 0.01, "top": 10, "period": 24, "hold_flagged": False},
            "command": ["onlinegcp", "fit", "events.parquet"],
        },
    )
    made = [_step(rng, n) for n in range(DIFFERENT)]
    start = datetime.datetime(1900, 1, 1)
    for at in range(0, length, DIFFERENT):
        lines = [
            {
                **made[n - at],
                "number": n + 1,
                "time": (start + datetime.timedelta(hours=n)).isoformat(),
            }
            for n in range(at, min(at + DIFFERENT, length))
        ]
        runlog.append_lines(path, [runlog.encode_step(line) for line in lines])
    sizes = (30, 20)
    arrays = {f"factor.{k}": rng.dirichlet(np.full(n, 0.3), RANK).T for k, n in enumerate(sizes)}
    labels = [[f"{'ab'[k]}{i}" for i in range(n)] for k, n in enumerate(sizes)]
    record = {"n_steps": length, "labels": labels, "last_step": None}
    arrays["weights"] = np.array(lines[-1]["weights"])
    target = path / runlog.CHECKPOINT
    write_archive(target, runlog.CHECKPOINT_KIND, arrays, record, of_run=True)


def _step(rng: np.random.Generator, n: int) -> dict[str, Any]:
    weights = 100.0 * (1 + 0.5 * np.sin(2 * np.pi * n / 24)) * rng.gamma(50, 1 / 50, RANK)
    odd = bool(rng.random() < 0.01)
    usual = float(weights.sum())
    total = (1 + odd) * usual
    p = 10.0 ** -float(rng.uniform(2, 9)) if odd else float(rng.uniform(0.01, 1))
    row = {"observed": total, "expected": usual, "low": 0.8 * usual, "high": 1.2 * usual, "p": p}
    anomaly = {
        "p": p,
        "score": -float(np.log10(p)),
        "flagged": odd,
        "severity": "low" if odd else None,
        "kind": "volume" if odd else None,
        "volume_p": p,
        "total": total,
        "expected_total": usual,
        "expected_low": 0.8 * usual,
        "expected_high": 1.2 * usual,
        "sentence": f"{total:,.0f} events.",
        "modes": [[{"label": "a1", **row, "new": False}] if odd else [], []],
        "cells": [{"index": [1, 2], "labels": ["a1", "b2"], **row, "new": False}] if odd else [],
    }
    return {
        "warm": False,
        "nnz": 100,
        "n_observed": 600,
        "total": total,
        "norm_squared": 3 * total,
        "prequential": -2.0 * total,
        "local": -2.1 * total,
        "weights": weights.tolist(),
        "drift": rng.gamma(0.1, 0.001, RANK).tolist(),
        "anomaly": anomaly,
        "seconds": 0.001,
    }


def _measure(folder: str) -> None:
    from onlinegcp.report import make_report

    begin = time.process_time()
    made = make_report(Path(folder, "long.run"), global_loss=False)
    page = made.write(Path(folder, "report.html"))
    found = {
        "seconds": time.process_time() - begin,
        "whole": time.process_time(),  # with what was imported
        "peak": resident("VmHWM"),
        "page": page.stat().st_size,
        "points": len(made.digest.series),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    _measure(sys.argv[1])

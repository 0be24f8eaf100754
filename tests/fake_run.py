"""A run directory made from the bundled flights by plain NumPy, for tests of its readers.

The model is one static Poisson fit to all days (expectation maximisation on the listed cells), so
the patterns, losses and odd days are those of real data, without the streaming solver.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
from scipy.stats import norm, poisson

from onlinegcp import runlog
from onlinegcp.problems import load_flights
from onlinegcp.storage.archive import write_archive

WARM = 10


def make_steps(n_days=365, rank=6, n_iterations=25, seed=0, modes=("dest", "carrier", "hour")):
    """The factors, labels, names of the modes and one record per day."""
    stream = load_flights(modes)
    slices = stream.slices[:n_days]
    weights, factors = _fit(slices, rank, n_iterations, seed)
    rng = np.random.default_rng(seed)
    steps = []
    spread = []
    for t, x in enumerate(slices):
        m = _values(weights[t], factors, x.index)
        local = float(weights[t].sum() - x.value @ np.log(m + 1e-10))
        step: runlog.Step = {
            "number": t + 1,
            "time": x.time.isoformat(),
            "warm": t < WARM,
            "nnz": x.nnz,
            "n_observed": x.n_observed,
            "total": x.total,
            "norm_squared": x.norm_squared,
            "prequential": None if t < WARM else local + 0.05 * abs(local) * rng.random(),
            "local": local,
            "weights": weights[t],
            "forget": 0.98,
            "newton_steps": 4,
            "births": int(t == 120),
            "deaths": int(t == 118),
            "merges": 0,
            "rank": rank,
            "order": None,
            "drift": 0.3 * rng.random(rank) ** 6 * (1 + 2 * (np.arange(rank) == 2) * (t > 150)),
            "seconds": 0.002 + 0.001 * rng.random(),
            "held": False,
            "partial": False,
            "anomaly": None,
            "regime": "",
            "regime_since": None,
        }
        same = [weights[s].sum() for s in range(t - 7, -1, -7)][:4]
        spread.append(-(x.value @ np.log(m / m.sum())) / x.total)
        if t >= WARM:
            step["anomaly"] = _anomaly(x, m, weights[t], factors, stream.labels, same, spread)
        steps.append(step)
    return factors, stream.labels, modes, steps


def _fit(slices, rank, n_iterations, seed):
    rng = np.random.default_rng(seed)
    index = np.concatenate(
        [np.column_stack([x.index, np.full(len(x.value), t)]) for t, x in enumerate(slices)]
    )
    value = np.concatenate([x.value for x in slices])
    shape = (*slices[0].shape, len(slices))
    factors = [rng.random((length, rank)) + 0.1 for length in shape]
    for _ in range(n_iterations):
        for k, a in enumerate(factors):
            rows = np.prod([f[index[:, j]] for j, f in enumerate(factors)], axis=0)
            part = rows * (value / (rows.sum(1) + 1e-12))[:, None]
            new = np.stack([np.bincount(index[:, k], p, len(a)) for p in part.T], axis=1)
            factors[k] = new if k == len(shape) - 1 else new / (new.sum(0) + 1e-12)
    return factors[-1], factors[:-1]


def _values(weights, factors, index):
    return np.prod([f[index[:, k]] for k, f in enumerate(factors)], axis=0) @ weights + 1e-3


def _anomaly(x, m, weights, factors, labels, same, spread):
    expected = float(np.mean(same)) if same else x.total
    volume_z = (x.total - expected) / (1.5 * np.sqrt(expected) + 0.01 * expected)
    past = np.array(spread[-60:-1])
    z = float((spread[-1] - past.mean()) / (past.std() + 1e-3))
    p, volume_p = float(norm.sf(z)), float(2 * norm.sf(abs(volume_z)))
    flagged = min(p, volume_p) < 0.01
    tail = poisson.sf(x.value - 1, m)
    cells = []
    for i in np.argsort(tail)[:10]:
        names = [labels[k][j] for k, j in enumerate(x.index[i])]
        cells.append({"index": x.index[i], "labels": names, **_told(x.value[i], m[i], tail[i])})
    modes = []
    for k, names in enumerate(labels):
        seen, model = (np.bincount(x.index[:, k], v, len(names)) for v in (x.value, m))
        best = np.argsort(-np.abs(seen - model))[:5]
        plain = {"follows": False}
        rows = [(names[j], _told(seen[j], model[j], 0.001)) for j in best]
        modes.append([{"label": label, **told, **plain} for label, told in rows])
    least = min(p, volume_p)
    return {
        "p": least,
        "z": z,
        "score": -np.log10(max(least, 1e-300)),
        "flagged": flagged,
        "severity": "low" if flagged else None,
        "kind": None if not flagged else "pattern" if p <= volume_p else "volume",
        "family": "up 0" if p <= volume_p else "volume",
        "volume_p": volume_p,
        "volume_z": volume_z,
        "volume_odd": volume_p < 0.01,
        "total": x.total,
        "expected_total": expected,
        "expected_low": 0.9 * expected,
        "expected_high": 1.1 * expected,
        "total_usual": volume_p >= 0.05,
        "rest_usual": True,
        "rest_change": 0.0,
        "more_rows": 0,
        "alarm": int(flagged),
        "ended": 0,
        "sentence": f"{x.time}: {x.total:,.0f} events, {cells[0]['labels'][0]} stands out.",
        "modes": modes,
        "cells": cells,
        "largest": [],
        "newcomers": [],
    }


def _told(observed, expected, p):
    return {
        "observed": observed,
        "expected": expected,
        "low": 0.5 * expected,
        "high": 1.5 * expected,
        "p": p,
        "new": False,
        "milder": False,
    }


def start(path, modes, rank):
    """Write run.json."""
    Path(path).mkdir(exist_ok=True)
    runlog.write_run_json(
        path,
        {
            "created": "2026-01-01T12:00:00+00:00",
            "version": "0.1.0",
            "environment": runlog.environment(),
            "model": {
                "method": "OnlineGCP",
                "parameters": {"rank": rank, "loss": "poisson", "solver": "auto", "forget": 0.98},
            },
            "events": {"time": "date", "every": "1d", "modes": list(modes)},
            "modes": list(modes),
            "anomaly": {"level": 0.01, "top": 10, "period": 7, "hold_flagged": False},
            "command": ["onlinegcp", "fit", "flights2013.parquet", "--rank", str(rank)],
        },
    )


def store(path, factors, labels, step):
    """Write checkpoint.npz as it is after a step."""
    arrays = {f"factor.{k}": np.asarray(a, dtype=float) for k, a in enumerate(factors)}
    arrays["weights"] = np.asarray(step["weights"], dtype=float)
    record = {"n_steps": step["number"], "labels": [list(n) for n in labels]}
    record["last_step"] = json.loads(runlog.encode_step(step))
    target = Path(path) / runlog.CHECKPOINT
    write_archive(target, runlog.CHECKPOINT_KIND, arrays, record, of_run=True)


def write_run(path, **options):
    """A whole run; returns its path."""
    factors, labels, modes, steps = make_steps(**options)
    start(path, modes, len(steps[-1]["weights"]))
    lines = b"".join(map(runlog.encode_step, steps))
    (Path(path) / runlog.STEPS).write_bytes(lines)
    store(path, factors, labels, steps[-1])
    return Path(path)


def play_run(path, seconds=0.05, **options):
    """The same, one step at a time, as a fit would."""
    factors, labels, modes, steps = make_steps(**options)
    start(path, modes, len(steps[-1]["weights"]))
    with runlog.Lock(path):
        for step in steps:
            store(path, factors, labels, step)
            runlog.append_lines(path, [runlog.encode_step(step)])
            time.sleep(seconds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("path")
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--play", type=float)
    given = parser.parse_args()
    if given.play:
        play_run(given.path, given.play, n_days=given.days)
    else:
        write_run(given.path, n_days=given.days, rank=8, n_iterations=60)

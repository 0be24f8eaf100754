"""Views of runs that never were: lines and factors by the dozen, without learning any."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from onlinegcp.runlog import RunView


def view(n_steps=30, rank=2, shape=(5, 24), loss="poisson", labels=None, seed=0, **fields):
    """A run of days in which the middle slice is odd."""
    rng = np.random.default_rng(seed)
    factors = tuple(rng.random((length, rank)) for length in shape)
    names = labels or tuple(tuple(f"m{k}-{i}" for i in range(n)) for k, n in enumerate(shape))
    steps = []
    for t in range(n_steps):
        odd = t == n_steps // 2
        cells = [
            {"labels": [n[0] for n in names], "observed": 9, "expected": 1, "p": 0, "share": 1}
        ]
        anomaly = {
            "p": 1e-9 if odd else 0.5,
            "z": 5.0,
            "volume_p": 0.4,
            "volume_z": 0.1,
            "expected_total": 100.0,
            "flagged": odd,
            "kind": "pattern" if odd else None,
            "cells": cells,
            "modes": [[{"label": n[0], "share": 1.0}] for n in names],
            "components": [1.0] * rank,
        }
        steps.append(
            {
                "number": t + 1,
                "time": str(np.datetime64("2013-01-01") + np.timedelta64(t, "D")),
                "warm": t < 5,
                "nnz": 50,
                "n_observed": int(np.prod(shape)),
                "total": 100.0,
                "norm_squared": 400.0,
                "prequential": None if t < 5 else -50.0,
                "local": -60.0,
                "weights": rng.random(rank).tolist(),
                "drift": rng.random(rank).tolist(),
                "seconds": 0.01,
                "anomaly": None if t < 5 else anomaly,
                **fields,
            }
        )
    info = {"format": 1, "model": {"method": "OnlineGCP", "parameters": {"loss": loss}}}
    modes = tuple(f"mode{k}" for k in range(len(shape)))
    return RunView(Path("x.run"), info, steps, factors, rng.random(rank), names, modes)

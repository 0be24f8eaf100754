"""Streams of 40 x 30 slices of a planted rank, which may change."""

from __future__ import annotations

import numpy as np

from onlinegcp.slices import Slice


def planted(name, rank, n_slices, seed, *, born=None, shape=(40, 30)):
    """Slices of `rank` components, one more from slice `born` on."""
    rng = np.random.default_rng([seed, rank])
    total = rank + (born is not None)
    if name == "gaussian":
        columns = [rng.standard_normal((n, total)) for n in shape]
        rows = rng.gamma(4.0, 0.25, (n_slices, total))
    else:
        columns = [rng.gamma(0.3, 1.0, (n, total)) for n in shape]
        columns = [a / a.mean(axis=0) for a in columns]
        rows = rng.gamma(4.0, 0.25, (n_slices, total)) * 3.0 / rank
    if born is not None:
        rows[:born, rank] = 0.0
    slices = []
    for row in rows:
        mean = (columns[0] * row) @ columns[1].T
        if name == "gaussian":
            data = mean + rng.standard_normal(shape)
        elif name == "poisson":
            data = rng.poisson(mean)
        else:
            data = rng.random(shape) < mean / (1.0 + mean)
        slices.append(Slice.dense(np.asarray(data, dtype=np.float64)))
    return slices

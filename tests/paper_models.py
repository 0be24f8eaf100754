"""OnlineGCP from one list of options, the settings of the paper's solver too; data for it."""

from __future__ import annotations

import numpy as np

from onlinegcp.ktensor import KTensor
from onlinegcp.streaming import SGD, OnlineGCP

SHAPE, RANK, WARM = (5, 1, 4), 2, 3


def gcp_model(rank, loss="gaussian", **options):
    """The model; with solver="sgd", settings of `SGD` go into its value."""
    if options.get("solver") == "sgd":
        settings = {n: options.pop(n) for n in SGD._get_param_names() if n in options}
        options["solver"] = SGD(**settings)
    return OnlineGCP(rank, loss, **options)


def counts(n, seed=0, shape=SHAPE, scale=20.0):
    """Arrays drawn from a planted model."""
    rng = np.random.default_rng(seed)
    factors = [rng.uniform(0.2, 1.0, (k, RANK)) for k in shape]
    rows = scale * rng.uniform(0.3, 1.0, (n, RANK))
    return [rng.poisson(KTensor(row, factors).full()).astype(float) for row in rows]


def start(rows=0, seed=0, shape=SHAPE, scale=20.0):
    """A model to begin from, with weights of so many past slices."""
    rng = np.random.default_rng(seed)
    factors = [rng.uniform(0.2, 1.0, (k, RANK)) for k in shape]
    factors = [a / np.linalg.norm(a, axis=0) for a in factors]
    weights = np.full(RANK, scale)
    if not rows:
        return KTensor(weights, factors)
    return KTensor(None, [*factors, weights * rng.uniform(0.5, 1.5, (rows, RANK))])

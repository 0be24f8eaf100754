"""The demo of RLST and SDT: slices 20 x 20 of rank 8 whose factors drift, from an exact start."""

from __future__ import annotations

import numpy as np

from onlinegcp.ktensor import KTensor
from onlinegcp.slices import Slice


def demo_error(model, drift, *, seed, still=20, steps=200):
    """Mean relative error of slices 101 to 200 after the start.

    Every step keeps 1 - drift of a factor and adds drift times a standard normal one, so that
    factors shrink and turn faster and faster, as in the authors' demo.
    """
    rng = np.random.default_rng(seed)
    factors = [rng.normal(size=(20, model.rank)) for _ in range(2)]
    rows = rng.normal(size=(still, model.rank))
    first = [Slice.dense(KTensor(row, factors).full()) for row in rows]
    model.start_from(KTensor(None, [*factors, rows]), first)
    errors = []
    for _ in range(steps):
        factors = [(1 - drift) * a + drift * rng.normal(size=a.shape) for a in factors]
        x = KTensor(rng.normal(size=model.rank), factors).full()
        model.partial_fit(Slice.dense(x))
        errors.append(np.linalg.norm(model.to_ktensor().full() - x) / np.linalg.norm(x))
    return float(np.mean(errors[100:]))

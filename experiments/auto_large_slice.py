"""Time and memory of one step of the tuning-free solver on slices of growing size.

    python experiments/auto_large_slice.py [nonzeros ...]

Shape 100,000 x 100,000 x 1,000, rank 64, Poisson, one thread. Prints one line per size.
"""

from __future__ import annotations

import resource
import sys
import time

import numpy as np

from onlinegcp.losses import get_loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto import solver as auto

SHAPE = (100_000, 100_000, 1_000)
RANK = 64


def draw(count: int, seed: int) -> Slice:
    """Counts from 64 popular patterns plus noise, heavy-tailed rows."""
    rng = np.random.default_rng(seed)
    columns = []
    group = rng.integers(0, RANK, count)
    for k, n in enumerate(SHAPE):
        # Each pattern has its own popular rows.
        position = (rng.pareto(0.8, count) * n / 200).astype(np.int64)
        columns.append((position * (2 * k + 3) + group * (n // RANK)) % n)
    index = np.stack(columns, axis=1).astype(np.int32)
    return Slice(index, np.ones(count), SHAPE)


def main() -> None:
    """Print one line per size."""
    sizes = [int(a) for a in sys.argv[1:]] or [60_000, 600_000, 5_600_000]
    loss = get_loss("poisson")
    rng = np.random.default_rng(0)
    factors = [rng.gamma(0.5, 1.0, (n, RANK)) + 1e-3 for n in SHAPE]
    factors = [a / a.sum(axis=0) for a in factors]
    for count in sizes:
        x = draw(count, 1)
        state = auto.start(factors, np.full((1, RANK), 1000 / RANK), [draw(1000, 2)], loss)
        state, _ = auto.step(state, draw(1000, 3), loss)
        begin = time.process_time()
        state, info = auto.step(state, x, loss)
        seconds = time.process_time() - begin
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(
            f"{x.n_listed:>9,} nonzeros  {seconds:6.2f} s  peak {peak:5.2f} GiB  "
            f"Newton steps {info.newton_steps}  loss {info.prequential:.4g} -> {info.local:.4g}"
        )


if __name__ == "__main__":
    main()

"""Fair timing on a busy machine: contestants take turns, medians and percentiles are kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

# Libraries read these when they are loaded, so `run` sets them before it imports anything heavy.
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    # Kokkos would otherwise advise, on its standard output, to bind threads.
    "OMP_PROC_BIND": "false",
}

# Solvers run on one thread, so the processor time of the process is the wall time of a quiet
# machine, and neighbours that take the processor away do not count.
clock = time.process_time


@dataclass(frozen=True)
class Times:
    """Measured values of one contestant, one per round, in one unit."""

    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        return float(np.median(self.samples))

    @property
    def p20(self) -> float:
        return float(np.percentile(self.samples, 20))

    @property
    def p80(self) -> float:
        return float(np.percentile(self.samples, 80))

    def over(self, other: Times) -> float:
        """Median over rounds of this contestant's value divided by the other's in the same round.

        Pairing cancels what slows a whole round down, such as a neighbour on the machine.
        """
        return float(np.median(np.divide(self.samples, other.samples)))


def take_turns(contestants: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, Times]:
    """Call every contestant once per round; each returns its own seconds.

    The order is reversed in every other round, so that nobody always follows the same neighbour.
    """
    samples: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds):
        order = list(contestants)
        for name in order[::-1] if number % 2 else order:
            samples[name].append(contestants[name]())
    return {name: Times(tuple(values)) for name, values in samples.items()}

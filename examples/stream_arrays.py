"""A stream of matrices, learned one by one: patterns, a forecast of cells, an odd day, a file.

Counts of calls between seven offices and five desks, one matrix per day, follow two habits of
which one is twice as strong on odd days.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from onlinegcp.slices import Slice
from onlinegcp.streaming import OnlineGCP

rng = np.random.default_rng(0)
offices, desks = rng.random((7, 2)) ** 2, rng.random((5, 2)) ** 2


def day(number: int) -> np.ndarray:
    """The calls of one day."""
    habits = np.array([40.0, 60.0 if number % 2 else 30.0])
    return rng.poisson(offices * habits @ desks.T)


model = OnlineGCP(rank=2, loss="poisson")
for number in range(60):
    # A bare matrix would be read as scikit-learn's table of samples, so it is wrapped.
    model.partial_fit(Slice.dense(day(number)), time=number)

even, odd = model.transform([day(60), day(61)])
print(f"weights of an even day {even.round(1)}, of an odd day {odd.round(1)}")
print(f"calls from office 0 to desks 0 and 1 now: {model.predict([[0, 0], [0, 1]]).round(1)}")

switched = day(62)[:, ::-1]
usual, strange = model.score_samples([day(62), switched])
print(f"loss per cell of a usual day {-usual:.2f}, with the desks switched {-strange:.2f}")

partly = day(63).astype(float)
truth = partly[:, 0].sum()
partly[:, 0] = np.nan  # not counted that day
filled = model.inverse_transform(model.transform([partly]))[0]
print(
    f"calls to desk 0, which were not counted: about {filled[:, 0].sum():.0f}, in truth {truth:.0f}"
)

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "calls"
    model.save(path)
    again = OnlineGCP.load(path).partial_fit([day(64), day(65)])
print(f"{again.n_slices_} days learned")

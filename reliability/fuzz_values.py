"""Values of every size, and shapes of every kind, through every method."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path

import numpy as np

from onlinegcp.errors import OnlineGCPError
from onlinegcp.slices import Slice
from onlinegcp.streaming import METHODS, OnlineGCP
from onlinegcp.streaming.storage import pack_model

LOSSES = ("gaussian", "poisson", "bernoulli_odds", "gamma", "huber", "negative_binomial")


def play(rng: np.random.Generator, folder: Path) -> None:
    """A model stays finite and can be used, or refuses a slice and is what it was."""
    names = [*METHODS, *(["online_gcp"] * len(METHODS))]
    name = names[int(rng.integers(0, len(names)))]
    shape = tuple(int(n) for n in rng.integers(1, 6, int(rng.integers(1, 4))))
    options = {"init_slices": int(rng.integers(1, 4)), "init_starts": 1, "random_state": 0}
    rank = int(rng.integers(1, 4))
    if name == "online_gcp":
        model = OnlineGCP(rank, LOSSES[int(rng.integers(0, len(LOSSES)))], **options)
    else:
        model = METHODS[name](rank, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(8):
            x = _slice(rng, shape)
            before = copy.deepcopy(model)
            try:
                model.partial_fit([x])
            except OnlineGCPError:
                assert _numbers(model) == _numbers(before), "a refused slice left a trace"
            for array in _arrays(model).values():
                assert np.isfinite(array).all(), "a number that is not finite was kept"


def _slice(rng: np.random.Generator, shape: tuple[int, ...]) -> Slice:
    cells = rng.poisson(1.0, shape).astype(float)
    kind = rng.random()
    if kind < 0.3:
        cells *= 10.0 ** rng.uniform(-300, 300)
    elif kind < 0.5:
        cells.flat[int(rng.integers(0, cells.size))] = 10.0 ** rng.uniform(-300, 308)
    elif kind < 0.6:
        cells *= 0
    elif kind < 0.7:
        cells = -cells
    if rng.random() < 0.3:
        return Slice(np.argwhere(cells), cells[cells != 0], shape)
    return Slice.dense(cells)


def _arrays(model: object) -> dict[str, np.ndarray]:
    if not model.__sklearn_is_fitted__():  # type: ignore[attr-defined]
        return {}
    arrays, _ = pack_model(model)  # type: ignore[arg-type]
    return {name: array for name, array in arrays.items() if array.dtype.kind == "f"}


def _numbers(model: object) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in _arrays(model).items()}

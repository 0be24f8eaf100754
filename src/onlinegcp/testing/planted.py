"""Small streams from a known model, for any loss: what checks and tests learn from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from onlinegcp.errors import OnlineGCPError
from onlinegcp.ktensor import KTensor
from onlinegcp.losses import Loss
from onlinegcp.slices import Slice

FloatArray: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class PlantedStream:
    """Slices drawn from a known model.

    Attributes
    ----------
    slices
        The data.
    rows
        True weights, one row per slice.
    factors
        True factors of each slice (the same tuple for all, unless a change was planted).
    """

    slices: list[Slice]
    rows: FloatArray
    factors: list[tuple[FloatArray, ...]]


def planted_stream(
    loss: Loss,
    *,
    shape: tuple[int, ...] = (11, 7),
    rank: int = 2,
    n_slices: int = 40,
    change_at: int | None = None,
    nonnegative: bool = False,
    seed: int = 0,
) -> PlantedStream:
    """A small dense stream from a known model, for any loss.

    Parameters
    ----------
    loss
        Data are drawn from its likelihood; losses without one get Gaussian noise.
    shape, rank, n_slices
        Size of the stream.
    change_at
        From this slice on, the factors are new ones.
    nonnegative
        Plant nonnegative factors, as losses with a bound need in any case.
    seed
        Seed of everything.
    """
    rng = np.random.default_rng(seed)
    scale = loss.traits.usual_weight

    def draw_factors() -> tuple[FloatArray, ...]:
        # Each component owns a part of every mode, so that the truth is well determined.
        parts = []
        for n in shape:
            owner = np.arange(n) % rank
            a = np.where(owner[:, None] == np.arange(rank), 1.0, 0.1) * rng.uniform(
                0.7, 1.3, (n, 1)
            )
            signed = loss.lower < 0 and not nonnegative
            parts.append(a * rng.choice([-1.0, 1.0], (n, 1)) if signed else a)
        return tuple(parts)

    rows = scale * rng.uniform(0.4, 1.6, (n_slices, rank))
    first = draw_factors()
    second = tuple(np.roll(a, 1, axis=0)[::-1].copy() for a in draw_factors())
    factors = [first if change_at is None or t < change_at else second for t in range(n_slices)]
    slices = [
        Slice.dense(_draw(loss, KTensor(row, f).full(), rng))
        for row, f in zip(rows, factors, strict=True)
    ]
    return PlantedStream(slices, rows, factors)


def _draw(loss: Loss, m: FloatArray, rng: np.random.Generator) -> FloatArray:
    try:
        return np.asarray(loss.sample(rng, m), dtype=np.float64)
    except OnlineGCPError:
        noisy = m + 0.1 * rng.standard_normal(m.shape)
        return np.maximum(noisy, 1e-3) if loss.lower >= 0 else noisy

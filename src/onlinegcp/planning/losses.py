"""How cells are measured: which loss suits what they hold.

Counts are Poisson or negative binomial, whichever gives cells that were held out the higher
likelihood: two small models are learned and judged on the slices that follow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from onlinegcp.errors import OnlineGCPError
from onlinegcp.losses import Loss, get_loss
from onlinegcp.slices import Slice
from onlinegcp.streaming import OnlineGCP

Numbers = npt.NDArray[np.float64]
Cells = tuple[Numbers, Numbers]

# Cells of a slice that a trial looks at.
_CELLS = 4_000
# Where cells hold less on average, spread cannot be told from a wrong expectation.
_MEAN = 0.5
_JUDGED = 4  # slices of the second half, which judge a loss, at least


@final
@dataclass(frozen=True)
class Measured:
    """A loss as the command line spells it, the bound on the model, and why."""

    loss: str
    reason: str
    lower: float | None = None


def choose_loss(agg: str, slices: Sequence[Slice], rank: int) -> Measured:
    """The loss that suits the cells of slices.

    Parameters
    ----------
    agg
        How cells were made; see `from_events`.
    slices
        The first slices of the stream.
    rank
        Largest rank of the models that are tried.
    """
    if agg == "any":
        return Measured("bernoulli_odds", "cells are yes or no")
    values = np.concatenate([x.value for x in slices]) if slices else np.empty(0)
    counted = agg in ("count", "sum") and bool((values >= 0).all() and (values % 1 == 0).all())
    if not counted:
        lower = natural_bound("gaussian", values)
        reason = "measurements" if lower is None else "measurements from 0 on, so the model is, too"
        return Measured("gaussian", reason, lower)
    slices = _busiest(slices)
    if sum(x.total for x in slices) < _MEAN * sum(x.size for x in slices):
        return Measured("poisson", "counts, mostly 0 and 1")
    if not _can_be_tried(slices):
        return Measured("poisson", "counts, too few to try another loss")
    try:
        size = held_out_size(slices, rank)
    except OnlineGCPError:
        return Measured("poisson", "counts, too few to try another loss")
    if size is None:
        return Measured("poisson", "counts that spread no more than Poisson, on held-out cells")
    return Measured(
        f"negative_binomial:r={size:g}", "counts that spread more than Poisson, on held-out cells"
    )


def natural_bound(loss: str, values: npt.ArrayLike) -> float | None:
    """The bound on the model that data suggest: 0 where none is negative and the loss has none.

    Patterns that may be negative can cancel each other; where data cannot, they need not.

    Parameters
    ----------
    loss
        As the command line spells it.
    values
        Values of cells, or what these are made of.
    """
    chosen = get_loss(loss.partition(":")[0])
    found = np.asarray(values)
    # Other losses without a bound model logarithms or log-odds, which have no sign to keep.
    squared = chosen.traits.quadratic or chosen.traits.tempered
    positive = bool(found.size) and bool((found >= 0).all())
    return 0.0 if positive and squared and chosen.lower == -np.inf else None


def _busiest(slices: Sequence[Slice]) -> list[Slice]:
    """The slices cut down to the rows that hold most, so that a trial takes moments."""
    if not slices:
        return []
    shape = tuple(max(lengths) for lengths in zip(*(x.shape for x in slices), strict=True))
    most = int(_CELLS ** (1.0 / len(shape)))
    found = list(slices)
    for mode, length in enumerate(shape):
        totals = np.zeros(length)
        for x in found:
            np.add.at(totals, x.index[:, mode], x.value)
        place = np.full(length, -1)
        kept = np.sort(np.argsort(-totals, kind="stable")[:most])
        place[kept] = np.arange(len(kept))
        found = [_rows(x, mode, place, len(kept)) for x in found]
    return found


def _rows(x: Slice, mode: int, place: npt.NDArray[np.int64], length: int) -> Slice:
    index = x.index.copy()
    index[:, mode] = place[index[:, mode]]
    kept = index[:, mode] >= 0
    shape = (*x.shape[:mode], length, *x.shape[mode + 1 :])
    return Slice(index[kept], x.value[kept], shape, unlisted=x.unlisted)


def _can_be_tried(slices: Sequence[Slice]) -> bool:
    """Whether there are slices to learn, some to judge by, and several cells in each."""
    longest = max((max(x.shape) for x in slices), default=0)
    return len(slices) - len(slices) // 2 >= _JUDGED and longest >= 2


def held_out_size(slices: Sequence[Slice], rank: int) -> float | None:
    """The r of a negative binomial model that beats a Poisson model on held-out cells, or None.

    Both learn the first half of the slices and predict the rest, each half of the cells of a slice
    with weights from the other half. The rank is the one at which Poisson does best, the r is the
    likeliest around what it predicts there. The negative binomial must win by two standard errors,
    in the mean of slices or in how many it wins: means follow the loudest slice.
    """
    shape = tuple(max(lengths) for lengths in zip(*(x.shape for x in slices), strict=True))
    wide = [Slice(x.index, x.value, shape, unlisted=x.unlisted) for x in slices]
    warm = len(wide) // 2
    start, rest = wide[:warm], wide[warm:]
    most = min(max(1, rank), math.prod(shape))
    tried = {r: _predicted("poisson", start, rest, r) for r in (1, 3, 5) if r <= most}
    fits = {r: sum(_log_poisson(x, m).sum() for x, m in cells) for r, cells in tried.items()}
    best = max(fits, key=fits.__getitem__)
    size = _likeliest_size(tried[best])
    if size is None:
        return None
    rival = _predicted(get_loss("negative_binomial", r=size), start, rest, best)
    gains = np.array(
        [
            _log_nb(x, other, size).sum() - _log_poisson(x, m).sum()
            for (x, m), (_, other) in zip(tried[best], rival, strict=True)
        ]
    )
    often = (gains > 0).sum() > len(gains) / 2 + np.sqrt(len(gains))
    much = gains.mean() > 2.0 * gains.std(ddof=1) / np.sqrt(len(gains))
    return size if often or much else None


def _predicted(
    loss: str | Loss, start: Sequence[Slice], rest: Sequence[Slice], rank: int
) -> list[Cells]:
    """For each slice its cells, and what was expected of them."""
    model = OnlineGCP(rank, loss, init_slices=len(start), init_starts=1)
    model.partial_fit(list(start))
    found = []
    for number, x in enumerate(rest):
        cells, halves = x.to_dense(), model.predict_halves(x, number=number)
        means = [model.inverse_transform(row) for row in halves.weights]
        mean = np.choose(halves.board.full(), means)
        # A cell expected to be exactly empty would settle everything by itself.
        usual = max(float(cells.mean()), 1e-9)
        found.append((cells.reshape(-1), (0.99 * mean + 0.01 * usual).reshape(-1)))
    return found


def _likeliest_size(cells: Sequence[Cells]) -> float | None:
    """The r of highest likelihood, on a grid fine enough for a choice; None if it is infinite."""
    x, m = (np.concatenate(parts) for parts in zip(*cells, strict=True))
    grid = np.geomspace(1e-2, 1e3, 51)
    likelihoods = [float(_log_nb(x, m, size).sum()) for size in grid]
    best = int(np.argmax(likelihoods))
    return None if best == len(grid) - 1 else float(f"{grid[best]:.2g}")


def _log_nb(x: Numbers, m: Numbers, size: float) -> Numbers:
    chance = np.log(m / (m + size))
    return np.asarray(
        gammaln(x + size) - gammaln(size) - gammaln(x + 1) + x * chance - size * np.log1p(m / size)
    )


def _log_poisson(x: Numbers, m: Numbers) -> Numbers:
    return np.asarray(x * np.log(m) - m - gammaln(x + 1))

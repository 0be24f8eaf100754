"""Cells as the newest slices had them, as far as that would have foreseen them better.

A few patterns leave out what is particular to single cells, and where slices repeat a timetable the
slice a season ago knows it. So a forecast is drawn from the patterns towards what cells held a
season ago, or in the seasons before, and what the patterns missed there is added again. How far is
learned from the newest slices: the same was foreseen for them, one step ahead and as many as are
asked for, and the shares that would have come closest, none of them negative and together at most
one, are used. Where nothing repeats they are zero, and the patterns alone speak.

Slices and patterns are one linear space: `s_j + sum_r u_r pattern_r`, with s_j few listed cells.
All inner products follow from those of short vectors, and no cell that is zero is ever visited.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from onlinegcp.forecasting.recent import Recent
from onlinegcp.forecasting.smoothing import Carried, lately

FloatArray: TypeAlias = NDArray[np.float64]

FADING = 0.7  # what a season counts after the next
SEASONS = 8  # those that are looked at
JUDGES = 60  # slices that judge
FEWEST = 3  # and no fewer
LARGEST = 10  # cells of each of them whose intervals are judged, as many as are shown
RELUCTANCE = np.array([0.01, 0.01, 0.0, 0.0])  # to take what cells held instead of the patterns


@final
@dataclass(frozen=True)
class Judged:
    """The largest cells that were expected of slices by now known, of all of them in one row.

    Attributes
    ----------
    values, errors : (n,) arrays
        What was expected, and what came less that.
    rows : (n, R) array
        What a weight of one of each pattern holds there.
    slices
        How many slices they are of.
    """

    values: FloatArray
    errors: FloatArray
    rows: FloatArray
    slices: int


@final
@dataclass(frozen=True)
class Drawn:
    """Slices to come as patterns and single cells.

    Attributes
    ----------
    weights : (steps, R) array
        Of the patterns, whose columns sum to one.
    shares : (steps, n) array
        Of each of the newest slices.
    index : (C, d) array
        Cells that these list.
    rows : (n, C) array
        What they hold there.
    missed : (steps,) array or None
        Sums of squared errors that such shares left in the slices that judged, if there were any.
    apart
        Squared differences of late between totals and what the patterns, fitted to their slices,
        say of them.
    judged
        What such shares expected of the largest cells of late, one step ahead and as many as are
        asked for.
    """

    weights: FloatArray
    shares: FloatArray
    index: NDArray[np.int64]
    rows: FloatArray
    missed: FloatArray | None = None
    apart: float = 0.0
    judged: tuple[Judged, ...] = ()

    def listed(self, step: int) -> FloatArray:
        """What is added to the listed cells in a step."""
        return np.asarray(np.einsum("j,jc->c", self.shares[step], self.rows))


def patterns_only(mean: FloatArray, n_modes: int) -> Drawn:
    """The patterns alone."""
    index = np.zeros((0, n_modes), dtype=np.int64)
    return Drawn(mean, np.zeros((len(mean), 0)), index, np.zeros((0, 0)))


def draw(
    recent: Recent,
    past: FloatArray,
    carried: Carried,
    mean: FloatArray,
    columns: Sequence[FloatArray],
    unit: float,
    period: int,
) -> Drawn:
    """Draw a forecast of patterns towards what cells held.

    Parameters
    ----------
    recent
        The newest slices.
    past
        (times, R) weights; the last rows are those of `recent`.
    carried
        The past carried on.
    mean
        (steps, R) weights to expect.
    columns
        Factors with columns that sum to one, which `past` and `mean` belong to.
    unit
        What the data of a model value of one are.
    period
        Slices after which cells repeat.
    """
    odd = np.flatnonzero(~np.isfinite(past).all(axis=1)).max(initial=-1)
    count = min(len(recent), len(past) - 1 - int(odd))
    if count < FEWEST:
        return patterns_only(mean, len(columns))
    space = _Space.of(recent, past[-count:], columns, unit)
    alone = replace(patterns_only(mean, len(columns)), apart=space.apart())
    if count <= period:
        return alone
    steps = len(mean)
    ends = [
        _learned(space, errors[-count:], ahead, period)
        for errors, ahead in ((carried.near, 1), (carried.far, steps))
    ]
    known = [end for end in ends if end is not None]
    if not known:
        return alone
    weights, shares, missed = mean.copy(), np.zeros((steps, count)), np.zeros(steps)
    for h in range(steps):
        way = h / max(steps - 1, 1)
        (near, left_near, _), (far, left_far, _) = known[0], known[-1]
        taken, missed[h] = (1 - way) * near + way * far, (1 - way) * left_near + way * left_far
        found = space.towards(count + h, h + 1, period, mean[h])
        if found is not None:
            shares[h] = taken @ found[0]
            weights[h] += taken @ found[1]
    judged = tuple(cells for _, _, cells in (known[0], known[-1]))
    return Drawn(weights, shares, space.index, space.rows, missed, space.apart(), judged)


@dataclass(frozen=True)
class _Space:
    """Slices (n of them), and weights of the patterns that go with them."""

    index: NDArray[np.int64]  # (C, d) listed cells
    rows: FloatArray  # (n, C)
    beside: FloatArray  # (n, R) patterns that a slice holds besides its row
    weights: FloatArray  # (n, R) the patterns fitted to it
    with_patterns: FloatArray  # (n, R) inner products of rows and patterns
    gram: FloatArray  # (R, R) those of patterns
    sums: FloatArray  # (R,) of patterns
    patterns: FloatArray  # (C, R) what they hold in the cells
    known: NDArray[np.bool_]  # (n, C) whether a slice has the cell

    @staticmethod
    def of(
        recent: Recent, weights: FloatArray, columns: Sequence[FloatArray], unit: float
    ) -> _Space:
        slices = recent.slices[-len(weights) :]
        listed = np.concatenate([x.index for x in slices]).astype(np.int64)
        linear = np.ravel_multi_index(tuple(listed.T), tuple(map(len, columns)))
        cells, place = np.unique(linear, return_inverse=True)
        rows, beside = np.zeros((len(slices), len(cells))), np.zeros_like(weights)
        with_patterns, at = np.zeros_like(weights), 0
        index = np.stack(np.unravel_index(cells, tuple(map(len, columns))), axis=1)
        patterns = np.ones((len(cells), weights.shape[1]))
        for a, where in zip(columns, index.T, strict=True):
            patterns *= a[where]
        seen = np.ones(rows.shape, dtype=bool)
        for j, x in enumerate(slices):
            there = place[at : at + len(x.value)]
            values = patterns[there]
            own = np.asarray(x.value, dtype=np.float64) / unit
            if not x.whole:  # cells that are missing are as the patterns say
                own, beside[j] = own - np.einsum("ir,r->i", values, weights[j]), weights[j]
                seen[j] = False
                seen[j, there] = True
            rows[j, there] = own
            with_patterns[j] = np.einsum("i,ir->r", own, values)
            at += len(own)
        gram = np.prod([np.einsum("ir,is->rs", a, a) for a in columns], axis=0)
        sums = np.prod([a.sum(axis=0) for a in columns], axis=0)
        return _Space(index, rows, beside, weights, with_patterns, gram, sums, patterns, seen)

    def towards(
        self, at: int, ahead: int, period: int, mean: FloatArray
    ) -> tuple[FloatArray, FloatArray] | None:
        """Where a forecast of slice `at` may be drawn to, as shares of slices and patterns.

        To what the last season and those before held, each instead of what the patterns expect,
        and with what the patterns held then taken away. None where no season is known.
        """
        known = min(at - ahead, len(self.rows) - 1)
        same = [j for j in range(at - period, -1, -period) if j <= known]
        if not same:
            return None
        shares, weights = np.zeros((4, len(self.rows))), np.zeros((4, self.gram.shape[0]))
        seasons = np.array(same[:SEASONS])
        fading = FADING ** np.arange(len(seasons))
        for k, (chosen, parts) in enumerate(
            ((seasons[:1], np.ones(1)), (seasons, fading / fading.sum()))
        ):
            for kind, against in ((k, mean), (2 + k, parts @ self.weights[chosen])):
                shares[kind, chosen] = parts
                weights[kind] = parts @ self.beside[chosen] - against
        return shares, weights

    def largest(
        self, at: int, shares: FloatArray, weights: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Of the largest cells that were expected of a slice: what, what was missed, patterns."""
        used = np.flatnonzero(shares)
        values = self.patterns @ weights + shares[used] @ self.rows[used]
        count = min(LARGEST, len(values))
        top = np.argpartition(values, len(values) - count)[len(values) - count :]
        top = top[self.known[at, top]]
        held = self.rows[at, top] + self.patterns[top] @ self.beside[at]
        return values[top], held - values[top], self.patterns[top]

    def apart(self) -> float:
        """Squared differences of late between totals and those of the patterns fitted to them."""
        differences = self.rows.sum(axis=1) + (self.beside - self.weights) @ self.sums
        return float(lately(differences[:, None])[0, 0])

    def inner(self, shares: FloatArray, weights: FloatArray) -> FloatArray:
        """All inner products of some vectors."""
        used = np.flatnonzero(shares.any(axis=0))
        listed = np.einsum("aj,jc->ac", shares[:, used], self.rows[used])
        mixed = shares @ self.with_patterns @ weights.T
        own = np.einsum("ac,bc->ab", listed, listed)
        return np.asarray(own + mixed + mixed.T + weights @ self.gram @ weights.T)


def _learned(
    space: _Space, errors: FloatArray, ahead: int, period: int
) -> tuple[FloatArray, float, Judged] | None:
    """The shares that would have foreseen the newest slices best, and what they would have missed.

    `errors` are those of the weights that were expected `ahead` slices before.
    """
    count, total = len(space.rows), np.zeros((5, 5))
    judges: list[tuple[int, FloatArray, FloatArray, FloatArray]] = []
    for at in range(count - 1, count - 1 - min(len(errors), JUDGES), -1):
        foreseen = space.weights[at] - errors[at - count]
        found = space.towards(at, ahead, period, foreseen)
        if found is None:
            continue
        own = np.zeros((1, count))
        own[0, at] = 1.0
        rest = space.beside[at] - foreseen
        total += space.inner(np.concatenate([found[0], own]), np.vstack([found[1], rest]))
        judges.append((at, foreseen, *found))
    if len(judges) < FEWEST or not total[4, 4] > 0.0:
        return None
    sizes = np.diag(total)[:4]
    # Two directions may be the same: then the patterns are mended, not replaced.
    inner = total[:4, :4] + np.diag(RELUCTANCE * sizes + 1e-9 * sizes.sum() + 1e-300)
    root = np.linalg.cholesky(inner)
    shares, _ = nnls(root.T, np.linalg.solve(root, total[:4, 4]))
    shares = shares / max(1.0, shares.sum())
    missed = total[4, 4] - 2 * shares @ total[:4, 4] + shares @ total[:4, :4] @ shares
    seen = [
        space.largest(at, shares @ drawn, foreseen + shares @ weights)
        for at, foreseen, drawn, weights in judges
    ]
    values, errors, rows = (np.concatenate([cells[k] for cells in seen]) for k in range(3))
    judged = Judged(values, errors, rows, len(judges))
    return shares, max(float(missed), 0.0) / len(judges), judged

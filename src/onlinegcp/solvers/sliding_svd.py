"""A rank-R singular value decomposition of the last slices, and the turn that makes patterns of it.

The window holds N slices as rows, faded by the square root of the forgetting, newest last, and is
close to right middle' left'. Patterns are the columns of left middle turn.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]

# A window of worse condition does not show all components: some patterns would be rounding errors.
WORST_CONDITION = 1e8
# The turn and its inverse are computed anew where they are this far from being inverses.
DRIFT = 1e-6
# Size, relative to the window, of the slices made up where a window does not show all components.
FAINT = 1e-3


@dataclass(frozen=True)
class Window:
    """The decomposition.

    Attributes
    ----------
    left
        Orthonormal columns (cells, R).
    middle
        (R, R), not necessarily diagonal.
    right
        Orthonormal columns (N, R), one row per slice.
    turn, unturn
        The matrix that makes patterns of ``left @ middle``, and its inverse.
    """

    left: FloatArray
    middle: FloatArray
    right: FloatArray
    turn: FloatArray
    unturn: FloatArray

    def basis(self) -> FloatArray:
        """The patterns, not yet of rank one: (cells, R)."""
        return self.left @ (self.middle @ self.turn)

    def follow(self, x: FloatArray, forget: float, weights: FloatArray) -> Window:
        """The window one slice later.

        Parameters
        ----------
        x
            The slice (cells,).
        forget
            Weight of the past, per slice.
        weights
            Least-squares weights of the slice, used only where the update breaks down.
        """
        with np.errstate(all="ignore"):
            new = self._updated(x, forget)
            gap = np.max(np.abs(new.turn @ new.unturn - np.eye(len(weights))))
        if new._shows_all():
            if gap < DRIFT:
                return new
            return replace(new, unturn=np.asarray(np.linalg.inv(new.turn), np.float64))
        # The slice that left was all the window knew of a component: begin again from patterns.
        rows = np.sqrt(forget) * (self.right @ self.unturn.T)
        again = rebuilt(self.basis(), np.vstack([rows[1:], weights]), weights)
        return self if again is None else again

    def _shows_all(self) -> bool:
        """Whether no pattern is made of rounding errors.

        Either matrix may tell: whether a turn that grows without bound meets a slice that has
        nothing left of a component, or their product stays small, is a matter of rounding.
        """
        return all(
            bool(np.all(np.isfinite(part))) and np.linalg.cond(part) < WORST_CONDITION
            for part in (self.turn, self.middle)
        )

    def _updated(self, x: FloatArray, forget: float) -> Window:
        identity, fade = np.eye(len(self.middle)), np.sqrt(forget)
        along = self.left.T @ x
        right, upper = np.linalg.qr(np.vstack([fade * (self.right[1:] @ self.middle.T), along]))
        newest, leaving = right[-1], self.right[0]
        scaled = self.left @ upper.T + np.outer(x - self.left @ along, newest)
        left, middle = np.linalg.qr(scaled)
        shift = right[:-1].T @ self.right[1:]
        gone = identity + np.outer(leaving, leaving) / (1.0 - leaving @ leaving)
        come = identity + np.outer(newest, newest) / (1.0 - newest @ newest)
        turn = shift @ gone @ self.turn / fade
        return Window(left, middle, right, turn, fade * self.unturn @ shift.T @ come)


def decomposed(data: FloatArray, basis: FloatArray) -> Window | None:
    """The window of given slices, or None where they do not show all components.

    Parameters
    ----------
    data
        Faded slices (N, cells), newest last.
    basis
        The patterns (cells, R).
    """
    rank = basis.shape[1]
    if min(data.shape) < rank:
        return None
    right, values, left = np.linalg.svd(data, full_matrices=False)
    # Copies, laid out as a file gives them back: in another order, sums round differently.
    left, values, right = left[:rank].T.copy(), values[:rank], right[:, :rank].copy()
    turn = np.linalg.lstsq(left * values, basis, rcond=None)[0]
    if values[0] >= WORST_CONDITION * values[-1] or np.linalg.cond(turn) > WORST_CONDITION:
        return None
    return Window(left, np.diag(values), right, turn, np.linalg.inv(turn))


def rebuilt(basis: FloatArray, rows: FloatArray, typical: FloatArray) -> Window | None:
    """A window of what patterns make of weights; None where the patterns are not independent.

    Parameters
    ----------
    basis
        The patterns (cells, R).
    rows
        Faded weights (N, R), newest last. Components they do not show get faint ones.
    typical
        Weights of a usual slice, for their size.
    """
    cells, rank = basis.shape
    if cells < rank:
        return None
    frame, upper = np.linalg.qr(basis)
    size = float(np.max(np.abs(rows))) or float(np.max(np.abs(typical))) or 1.0
    for faint in (0.0, FAINT, 1.0):
        made_up = faint * size * np.eye(rank)[np.arange(len(rows)) % rank]
        window = decomposed((rows + made_up) @ upper.T, upper)
        if window is not None:
            left = frame @ window.left
            return replace(window, left=left)
    return None

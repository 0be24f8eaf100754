"""MAST: alternating directions for slices whose modes all grow, with a preference for low rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Literal, final

import numpy as np
from numpy.typing import NDArray

from onlinegcp.checks import check_number, check_whole
from onlinegcp.kernels import get_kernels
from onlinegcp.kernels.layout import pad_vector, stack_factors
from onlinegcp.slices import Slice
from onlinegcp.solvers.least_squares import gram, solve_normal, weighted_mttkrp
from onlinegcp.streaming.scoring import Account
from onlinegcp.streaming.state import FloatArray, ModelState
from onlinegcp.streaming.tracker import Tracker
from onlinegcp.streaming.warm_start import WarmStart

# Step of the alternating directions: where it starts, what it is multiplied by, where it ends.
FIRST_STEP, FASTER, LAST_STEP = 1e-5, 1.05, 1.0


@final
@dataclass(eq=False, repr=False)
class MAST(Tracker):
    """Multi-aspect streaming: any mode may get new rows with any slice (Song et al. 2017).

    The new factors explain the new slice, stay close to what the old factors made of the past, and
    have small nuclear norms; missing cells are filled in by the model in every pass. Old slices are
    not needed, and of the old rows of the time mode only their product with themselves.

    Parameters
    ----------
    rank
        Number of components.
    forget
        Weight of the past, per slice.
    nuclear
        Weight of the nuclear norm of every factor, in units of squared error; "auto", the paper's
        choice, is 1 / (5 N) with N modes, time included.
    max_epochs
        Epochs between two growths of a mode that are told apart in the past; the oldest are joined.
    max_passes, tolerance
        A slice's passes end when what the model says of it changes by less than this share.
    init, init_slices, init_starts, random_state, ndim, mode_names
        As for every `StreamingModel`.

    Notes
    -----
    Cost per pass that of one product with the slice per mode, R^2 per row, and an R x R
    eigenproblem per mode.

    What is interpretation: in a stream of slices the cells that new rows would have had in old
    slices are never told, so they are missing, where the paper has blocks of them: a row is tied
    only to the past slices that had it. The weight of the past compounds from slice to slice. The
    old rows of the time mode, which the paper moves along, are held by R x R triangles with the
    same products, one per epoch: all steps act on them from the right. New rows start at zero, not
    at random.
    Public codes of the method threshold singular values in other ways than the paper (one keeps
    the large ones as they are, one raises the small ones); this one shrinks them.

    References
    ----------
    Q. Song, X. Huang, H. Ge, J. Caverlee, X. Hu, Multi-aspect streaming tensor completion, KDD
    2017.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.random((9, 2)), rng.random((8, 2))
    >>> model = MAST(2, init_slices=4)
    >>> for t in range(16):  # both modes grow half-way
    ...     n = 1 + t // 8
    ...     _ = model.partial_fit(Slice.dense(a[: 4 * n] * rng.random(2) @ b[: 4 * n].T))
    >>> [len(a) for a in model.factors_], model.last_.prequential < 1e-4 * model.last_.norm_squared
    ([8, 8], True)
    """

    takes_missing = True
    bounded_by = "max_epochs"

    _: KW_ONLY
    forget: float = 1.0
    nuclear: float | Literal["auto"] = "auto"
    max_epochs: int = 16
    max_passes: int = 50
    tolerance: float = 1e-5

    def _check_parameters(self) -> None:
        check_number("forget", self.forget, "(0, 1]", "Use 1 to never forget.")
        if not (isinstance(self.nuclear, str) and self.nuclear == "auto"):
            check_number("nuclear", self.nuclear, "[0, inf)", "Use 0 for none, or 'auto'.")
        check_number("tolerance", self.tolerance, "[0, inf)")
        for name in ("max_epochs", "max_passes"):
            check_whole(name, getattr(self, name), 1)

    def _may_grow(self) -> bool:
        return True

    def _largest_state(self, shape: tuple[int, ...]) -> int | None:
        epochs = int(self.max_epochs) * (self.rank**2 + len(shape))
        return 8 * (epochs + self.rank * (sum(shape) + 2))

    def _begin(self, start: WarmStart, seed: int) -> ModelState:
        past = start.past(self.forget)[None]
        shape = np.array([[len(a) for a in start.factors]])
        arrays = {"past": past, "shapes": shape}
        return ModelState(start.factors, start.newest, start.mean, arrays)

    def _move(
        self, state: ModelState, batch: Sequence[Slice], before: FloatArray, account: Account
    ) -> ModelState:
        # New rows start at zero: the first pass finds them from the rows that are known.
        (x,), factors = batch, state.factors
        nuclear = 1.0 / (5.0 * (x.ndim + 1)) if self.nuclear == "auto" else float(self.nuclear)
        past, shapes = state.arrays["past"], state.arrays["shapes"]
        problem = _Alternation(x, factors, shapes, past, before, self.forget, nuclear)
        problem.run(self.max_passes, self.tolerance)
        moved, s, past = problem.result()
        past = self.forget * past
        if tuple(shapes[-1]) != x.shape:
            past = np.concatenate([past, np.zeros((1, *past.shape[1:]))])
            shapes = np.concatenate([shapes, [x.shape]])
        past[-1] += np.outer(s, s)
        if len(past) > self.max_epochs:
            # As if the second oldest rows had been there from the beginning.
            past = np.concatenate([past[:1] + past[1:2], past[2:]])
            shapes = shapes[1:]
        return state.moved(moved, s, {"past": past, "shapes": shapes})


class _Alternation:
    """One slice's problem.

    Blocks 0 to d - 1 are the factors. Block d is time: a triangle for the old rows of each epoch,
    and the slice's own row last. The slices of epoch e had the rows that were there at the time,
    the first shapes[e, k] of mode k.
    """

    def __init__(
        self,
        x: Slice,
        factors: Sequence[FloatArray],
        shapes: NDArray[np.int64],
        past: FloatArray,
        weights: FloatArray,
        forget: float,
        nuclear: float,
    ) -> None:
        self.x, self.shapes, self.forget, self.nuclear = x, shapes, forget, nuclear
        self.d, self.rank = len(factors), len(weights)
        triangles = [_triangle(matrix) for matrix in past]
        self.old = [*factors, np.vstack(triangles)]
        self.blocks = [*(a.copy() for a in factors), np.vstack([*triangles, weights])]
        self.copies = [np.zeros_like(a) for a in self.blocks]
        self.duals = [np.zeros_like(a) for a in self.blocks]
        self.complete = x.n_observed == x.size
        self.step = FIRST_STEP

    def run(self, max_passes: int, tolerance: float) -> None:
        """Passes until the model of the slice rests."""
        for _ in range(max_passes):
            before = [a.copy() for a in self.blocks]
            gap = None if self.complete else self._unexplained()
            for k in (self.d, *range(self.d)):
                self._move(k, before, gap)
            if self._changed(before) <= tolerance:
                break
            self.step = min(FASTER * self.step, LAST_STEP)

    def result(self) -> tuple[list[FloatArray], FloatArray, FloatArray]:
        """Factors, the slice's weights, and each epoch's old time rows times themselves."""
        *factors, time = self.blocks
        triangles = [self._rows(time, e) for e in range(len(self.shapes))]
        return factors, time[-1].copy(), np.array([t.T @ t for t in triangles])

    def _move(self, k: int, before: list[FloatArray], gap: Slice | None) -> None:
        """New rows of one block by least squares, then their low-rank copy and the dual."""
        now, right = self._slice_gram(k), self.step * self.copies[k] + self.duals[k]
        ridge = self.step * np.eye(self.rank)
        new = np.empty_like(right)
        if k == self.d:
            # Old rows take part in the past only, the new row in the slice only.
            right[-1] += self._data(k, before, gap)[0]
            new[-1] = solve_normal(now + ridge, right[-1:])[0]
            for e in range(len(self.shapes)):
                at = self._places(e)
                matrix, pull = self._epoch(e, k)
                right[at] += self.old[k][at] @ pull
                new[at] = solve_normal(matrix + ridge, right[at])
        else:
            right += self._data(k, before, gap)
            matrix, pull = now + ridge, np.zeros((self.rank, self.rank))
            end = len(new)
            # From the newest rows, which only the slice has, to the oldest, which all epochs have.
            for e in range(len(self.shapes) - 1, -1, -1):
                start = int(self.shapes[e, k])
                self._solve_rows(k, slice(start, end), matrix, pull, right, new)
                of_epoch = self._epoch(e, k)
                matrix, pull, end = matrix + of_epoch[0], pull + of_epoch[1], start
            self._solve_rows(k, slice(0, end), matrix, pull, right, new)
        self.blocks[k] = new
        shrunk = _shrink(new - self.duals[k] / self.step, self.nuclear / self.step)
        self.duals[k] = self.duals[k] + self.step * (shrunk - new)
        self.copies[k] = shrunk

    def _solve_rows(
        self,
        k: int,
        rows: slice,
        matrix: FloatArray,
        pull: FloatArray,
        right: FloatArray,
        new: FloatArray,
    ) -> None:
        if rows.start < rows.stop:
            new[rows] = solve_normal(matrix, right[rows] + self.old[k][rows] @ pull)

    def _epoch(self, e: int, k: int) -> tuple[FloatArray, FloatArray]:
        """What an epoch's past slices say about block k: normal matrix, and pull of old rows."""
        matrix = np.full((self.rank, self.rank), self.forget)
        pull = matrix.copy()
        for j in range(self.d):
            if j != k:
                n = int(self.shapes[e, j])
                a, old = self.blocks[j][:n], self.old[j][:n]
                matrix, pull = matrix * (a.T @ a), pull * (old.T @ a)
        if k != self.d:
            a, old = self._rows(self.blocks[self.d], e), self._rows(self.old[self.d], e)
            matrix, pull = matrix * (a.T @ a), pull * (old.T @ a)
        return matrix, pull

    def _places(self, e: int) -> slice:
        return slice(e * self.rank, (e + 1) * self.rank)

    def _rows(self, time: FloatArray, e: int) -> FloatArray:
        return time[self._places(e)]

    def _slice_gram(self, k: int) -> FloatArray:
        d = self.d
        product = gram(self.blocks[:d], skip=k)
        row = self.blocks[d][-1]
        return product if k == d else product * np.outer(row, row)

    def _data(self, k: int, before: list[FloatArray], gap: Slice | None) -> FloatArray:
        """Products of the slice with the other blocks, missing cells as before this pass."""
        d = self.d
        factors, row = self.blocks[:d], self.blocks[d][-1]
        if k < d:
            if gap is None:
                return weighted_mttkrp(self.x, factors, row, k)
            filled = np.outer(before[d][-1], row)
            for j in range(d):
                if j != k:
                    filled = filled * (before[j].T @ factors[j])
            return weighted_mttkrp(gap, factors, row, k) + before[k] @ filled
        ones = np.ones(len(row))
        x = self.x if gap is None else gap
        sums = np.sum(weighted_mttkrp(x, factors, ones, 0) * factors[0], axis=0)
        if gap is not None:
            filled = np.ones((len(row),) * 2)
            for j in range(d):
                filled = filled * (before[j].T @ factors[j])
            sums = sums + before[d][-1] @ filled
        return np.asarray(sums)[None]

    def _unexplained(self) -> Slice:
        """The observed cells minus the model; what is missing is not there."""
        d = self.d
        model = get_kernels("cpu").model_values(
            stack_factors(self.blocks[:d]), pad_vector(self.blocks[d][-1]), self.x.index
        )
        return Slice(self.x.index, self.x.value - model, self.x.shape, unlisted="missing")

    def _changed(self, before: list[FloatArray]) -> float:
        """Size of the change of the slice's model, relative to it, by products of the factors."""
        d = self.d
        new, old = self.blocks[d][-1], before[d][-1]
        mixed = np.outer(old, new)
        own, previous = np.outer(new, new), np.outer(old, old)
        for a, b in zip(self.blocks[:d], before[:d], strict=True):
            mixed, own, previous = mixed * (b.T @ a), own * (a.T @ a), previous * (b.T @ b)
        square = float(own.sum() - 2.0 * mixed.sum() + previous.sum())
        return float(np.sqrt(max(square, 0.0) / max(float(own.sum()), np.finfo(float).tiny)))


def _triangle(past: FloatArray) -> FloatArray:
    """R rows whose product with themselves is `past`, which may be singular."""
    values, vectors = np.linalg.eigh(past)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))).T)


def _shrink(a: FloatArray, by: float) -> FloatArray:
    """Soft-threshold the singular values."""
    if by == 0.0:
        return a
    values, vectors = np.linalg.eigh(a.T @ a)
    singular = np.sqrt(np.maximum(values, 0.0))
    share = np.maximum(singular - by, 0.0) / np.maximum(singular, np.finfo(float).tiny)
    return np.asarray(a @ ((vectors * share) @ vectors.T))

"""CP by alternating least squares, for sparse, dense and incomplete tensors."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg

from onlinegcp.checks import check_number
from onlinegcp.errors import DataError
from onlinegcp.kernels.blas import one_blas_thread
from onlinegcp.kernels.layout import Blocks, stack_factors
from onlinegcp.kernels.static.fibres import RowGroups, group_rows
from onlinegcp.kernels.static.mttkrp import contract_half, finish_half, half_of, mttkrp
from onlinegcp.kernels.static.row_systems import solve_least_squares_rows
from onlinegcp.ktensor import KTensor
from onlinegcp.slices import Slice
from onlinegcp.solvers.devices import cell_sums_for
from onlinegcp.static.inputs import check_options, read_start, read_tensor
from onlinegcp.static.result import Progress, ProgressCallable, StaticFit
from onlinegcp.static.starts import balance, best_of, check_rank, random_start, start_norm
from onlinegcp.sums.local import jobs

FloatArray = npt.NDArray[np.float64]

# Gram matrices whose Cholesky pivots spread farther than this are solved by their eigenvectors:
# with components this close to parallel the triangular solve returns rounding errors.
SMALLEST_PIVOT = 1e-12


def cp_als(
    x: Any,
    rank: int,
    *,
    init: KTensor | None = None,
    n_starts: int = 1,
    seed: int = 0,
    max_iterations: int = 50,
    tolerance: float = 1e-4,
    ridge: float = 0.0,
    progress: ProgressCallable | None = None,
    n_jobs: int | None = None,
    device: str = "cpu",
) -> StaticFit:
    """Fit a CP model by least squares, one factor matrix at a time.

    Each step solves for one factor exactly while the others stand still, so the squared error
    never rises. Complete tensors share one R x R system per mode; with missing cells every row
    has a system of its own over the cells observed in it.

    Parameters
    ----------
    x
        Anything `as_slice` takes, or a list of slices, which are stacked with time last.
    rank
        Number of components.
    init
        Model to start from, never changed; random starts otherwise.
    n_starts
        Random starts to try; the lowest objective is kept. Ignored with `init`.
    seed
        Seed of the random starts.
    max_iterations
        Most sweeps over all modes, at least 1.
    tolerance
        Stop when a sweep changes the fit, 1 - ||x - m|| / ||x||, by less than this.
    ridge
        Weight of the penalty, the sum of squares of all factors with the weights shared out
        evenly. It is part of the objective.
    progress
        Called with a `Progress` after every sweep.
    n_jobs
        Threads, None for every core; the result is the same for any number.
    device
        "cpu"; "cuda", an NVIDIA card, for the products of a sparse tensor without missing cells
        with its factors (all else stays on the CPU); "auto", the card where there is one and the
        tensor is large enough to gain.

    Returns
    -------
    StaticFit
        The model with columns of length one and components by decreasing weight; the objective
        is the sum of (x - m)^2 over the observed cells, plus the penalty.

    References
    ----------
    T. G. Kolda and B. W. Bader, Tensor decompositions and applications, SIAM Review 2009.

    Examples
    --------
    >>> truth = KTensor([3.0], [np.ones((4, 1)), np.arange(1.0, 4.0)[:, None]])
    >>> fit = cp_als(truth.full(), 1)
    >>> round(fit.fit, 6), fit.ktensor.isclose(truth.normalize(), rtol=1e-6)
    (1.0, True)
    """
    tensor = read_tensor(x)
    check_rank(rank, tensor.shape)
    check_options(max_iterations, tolerance, n_jobs, device)
    check_number("ridge", ridge, "[0, inf)", "Use 0 for none.")
    # Before the cells are grouped: squaring them takes memory too.
    norm_squared, start_length = tensor.norm_squared, start_norm(tensor)
    if norm_squared == 0.0:
        raise DataError(
            f"cp_als needs data other than zero, but all {tensor.n_observed} observed cells of the "
            f"tensor of shape {tensor.shape} are zero. Leave such tensors out."
        )
    with jobs(n_jobs) as engine:
        problem = _problem(tensor, engine.jobs, device, rank)

    def solve(start: Sequence[FloatArray]) -> StaticFit:
        with one_blas_thread():
            return _solve(problem, norm_squared, start, max_iterations, tolerance, ridge, progress)

    if init is not None:
        return solve(read_start(init, tensor.shape, rank, -math.inf))
    return best_of(
        n_starts,
        lambda rng: solve(random_start(tensor.shape, rank, rng, norm=start_length)),
        seed,
    )


class _Complete:
    """A tensor all of whose cells are known: one system per mode, from Gram matrices."""

    def __init__(self, tensor: Slice, n_jobs: int) -> None:
        self.array = tensor.array
        self.n_jobs = n_jobs
        self.split = half_of(tensor.shape)
        self.half: npt.NDArray[Any] | None = None
        self.groups: tuple[RowGroups, ...] = ()
        if self.array is None:
            self.groups = group_rows(tensor.index, tensor.value, tensor.shape)

    def update(self, blocks: Blocks, mode: int, ridge: float) -> tuple[FloatArray, float]:
        """Return the new factor of a mode and ||m||^2 - 2 <x, m> of the model that has it."""
        views = blocks.views()
        product = self._product(blocks, mode)
        gram = np.ones((blocks.rank, blocks.rank))
        for j, view in enumerate(views):
            if j != mode:
                gram *= view.T @ view
        new = _solve_gram(gram + ridge * np.eye(blocks.rank), product)
        return new, float(np.sum((new.T @ new) * gram) - 2.0 * np.sum(product * new))

    def _product(self, blocks: Blocks, mode: int) -> FloatArray:
        if self.array is None:
            return mttkrp(self.groups[mode], blocks, n_jobs=self.n_jobs)
        # Modes of one half share a contraction with the other half, which is not updated
        # meanwhile, so a sweep reads the whole tensor twice.
        views, first = blocks.views(), mode < self.split
        if mode in (0, self.split):
            keep = "first" if first else "last"
            self.half = contract_half(self.array, views, self.split, keep=keep)
        assert self.half is not None
        if first:
            return finish_half(self.half, views[: self.split], mode)
        return finish_half(self.half, views[self.split :], mode - self.split)


class _OnCard(_Complete):
    """A complete tensor whose listed cells lie on the card."""

    def __init__(self, sums: Any) -> None:
        self._sums = sums

    def _product(self, blocks: Blocks, mode: int) -> FloatArray:
        # A sweep begins with factors that may all have been rescaled; after that only the mode
        # before this one has changed.
        ends = blocks.offsets
        for k in range(blocks.ndim) if mode == 0 else (mode - 1,):
            self._sums.push(k, blocks.data[ends[k] : ends[k + 1]])
        return np.asarray(self._sums.products(mode)[:, : blocks.rank])


class _Incomplete:
    """A tensor with missing cells: one system per row, from the cells observed in it."""

    def __init__(self, tensor: Slice, n_jobs: int) -> None:
        self.n_jobs = n_jobs
        self.groups = group_rows(tensor.index, tensor.value, tensor.shape)

    def update(self, blocks: Blocks, mode: int, ridge: float) -> tuple[FloatArray, float]:
        """Return the new factor of a mode and ||m||^2 - 2 <x, m> over the observed cells."""
        return solve_least_squares_rows(self.groups[mode], blocks, ridge=ridge, n_jobs=self.n_jobs)


def _problem(
    tensor: Slice, n_jobs: int, device: str, rank: int
) -> _Complete | _OnCard | _Incomplete:
    if tensor.n_observed != tensor.size:
        return _Incomplete(tensor, n_jobs)
    if tensor.array is None:
        layout = stack_factors([np.zeros((n, rank)) for n in tensor.shape])
        sums = cell_sums_for(device, tensor, tensor.index, tensor.value, layout)
        if sums is not None:
            return _OnCard(sums)
    return _Complete(tensor, n_jobs)


def _solve(
    problem: _Complete | _OnCard | _Incomplete,
    norm_squared: float,
    start: Sequence[FloatArray],
    max_iterations: int,
    tolerance: float,
    ridge: float,
    progress: ProgressCallable | None,
) -> StaticFit:
    """Sweep over the modes until the fit stands still."""
    began = time.perf_counter()
    blocks = stack_factors(start)
    views = blocks.views()
    weights = np.ones(blocks.rank)
    trace: list[float] = []
    fit, converged, message = -math.inf, False, ""
    for iteration in range(1, max_iterations + 1):
        rest = 0.0
        for mode, view in enumerate(views):
            # The scale travels with the mode being solved, so that old rows are comparable to
            # new ones; under a penalty it stays shared out.
            view *= weights
            view[...], rest = problem.update(blocks, mode, ridge)
            weights = _unit_columns(view) if ridge == 0.0 else np.ones(blocks.rank)
        # Rounding can take the residual of an exact fit below zero.
        residual_squared = max(0.0, norm_squared + rest)
        trace.append(residual_squared + (_share_out(views, ridge) if ridge else 0.0))
        before, fit = fit, 1.0 - math.sqrt(residual_squared / norm_squared)
        if progress is not None:
            seconds = time.perf_counter() - began
            progress(Progress(iteration, trace[-1], seconds, f"fit {fit:.6f}"))
        if not math.isfinite(trace[-1]):
            message = f"stopped in sweep {iteration}: the objective is no longer a number"
            break
        if abs(fit - before) < tolerance:
            converged = True
            message = f"the fit changed by less than {tolerance:g} in sweep {iteration}"
            break
    else:
        message = f"made all {max_iterations} sweeps before the fit stood still"
    model = KTensor(weights, list(views)).normalize()
    return StaticFit(
        ktensor=model,
        objective=trace[-1],
        trace=trace,
        iterations=len(trace),
        converged=converged,
        message=message,
        seconds=time.perf_counter() - began,
        fit=fit,
    )


def _share_out(views: Sequence[FloatArray], ridge: float) -> float:
    """Make every component equally long in all modes, which is cheapest; return the penalty."""
    for view, even in zip(views, balance(np.ones(views[0].shape[1]), views), strict=True):
        view[...] = even
    return ridge * float(sum(np.sum(view * view) for view in views))


def _solve_gram(gram: FloatArray, product: FloatArray) -> FloatArray:
    """Return the rows a that minimise a' G a - 2 p' a, the shortest where there are many."""
    factor, info = scipy.linalg.lapack.dpotrf(gram, lower=1)
    pivots = np.diag(factor) ** 2 / np.maximum(np.diag(gram), np.finfo(float).tiny)
    if info == 0 and pivots.min() > SMALLEST_PIVOT:
        solution, _ = scipy.linalg.lapack.dpotrs(factor, product.T, lower=1)
        return np.asarray(solution.T)
    if not np.isfinite(gram).all():
        return np.full_like(product, np.nan)
    # Scaling to ones on the diagonal first keeps components of very different size apart from
    # components that are truly parallel.
    scale = 1.0 / np.sqrt(np.where(np.diag(gram) > 0.0, np.diag(gram), 1.0))
    values, vectors = np.linalg.eigh(gram * np.outer(scale, scale))
    kept = values > SMALLEST_PIVOT * values[-1]
    inverse = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T
    return np.asarray((product * scale) @ inverse * scale)


def _unit_columns(matrix: FloatArray) -> FloatArray:
    """Scale columns to length one in place and return the lengths they had."""
    lengths = np.sqrt(np.einsum("ir,ir->r", matrix, matrix))
    matrix /= np.where(lengths > 0.0, lengths, 1.0)
    return np.asarray(lengths)

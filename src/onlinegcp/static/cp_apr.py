"""CP for counts by alternating Poisson regression: MU, PDNR and PQNR."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from onlinegcp.checks import check_choice, check_number, check_whole
from onlinegcp.errors import DataError
from onlinegcp.kernels.blas import one_blas_thread
from onlinegcp.kernels.layout import Blocks, aligned_zeros, stack_factors
from onlinegcp.kernels.static.fibres import (
    EXTRA_SHARE,
    RowGroups,
    fibre_sums,
    group_rows,
    with_value,
)
from onlinegcp.kernels.static.mttkrp import mttkrp
from onlinegcp.kernels.static.poisson_rows import descend_rows, poisson_log_sum
from onlinegcp.ktensor import KTensor
from onlinegcp.slices import Slice
from onlinegcp.solvers.devices import cell_sums_for
from onlinegcp.static.inputs import check_options, read_start, read_tensor
from onlinegcp.static.result import Progress, ProgressCallable, StaticFit
from onlinegcp.static.starts import best_of, check_rank, random_start
from onlinegcp.sums.local import jobs

FloatArray = npt.NDArray[np.float64]
Method = Literal["mu", "pdnr", "pqnr"]

# Loosest tolerance of an inexact row solve. Slopes of 1e8 occur where a component vanished from
# all the cells of a row; a hundredth of that would let every other row rest.
LOOSEST = 0.01


@dataclass(frozen=True)
class _Options:
    method: Method
    max_iterations: int
    tolerance: float
    max_inner: int
    kappa: float
    kappa_tolerance: float
    epsilon: float
    active: float
    damping: float
    memory: int
    inexact: bool
    n_jobs: int


def cp_apr(
    x: Any,
    rank: int,
    *,
    method: Method = "pdnr",
    init: KTensor | None = None,
    n_starts: int = 1,
    seed: int = 0,
    max_iterations: int = 1000,
    tolerance: float = 1e-4,
    max_inner: int = 10,
    kappa: float = 0.01,
    kappa_tolerance: float = 1e-10,
    epsilon: float = 1e-10,
    active: float = 1e-8,
    damping: float = 1e-5,
    memory: int = 3,
    inexact: bool = True,
    progress: ProgressCallable | None = None,
    n_jobs: int | None = None,
    device: str = "cpu",
) -> StaticFit:
    """Fit a nonnegative CP model to counts by maximum Poisson likelihood.

    Modes take turns; with the others fixed, every row of a factor is a small convex problem over
    the nonzeros in it. Missing cells (NaN, or unlisted="missing") do not count.

    Parameters
    ----------
    x
        Nonnegative data: anything `as_slice` takes, or a list of slices, stacked with time last.
    rank
        Number of components.
    method
        "mu": multiplicative updates, cheap steps, slow near a solution. "pdnr": projected damped
        Newton per row. "pqnr": projected limited-memory BFGS per row, for large ranks.
    init
        Nonnegative model to start from, never changed; random starts otherwise. Rows of zeros
        that the data needs are filled, because no method can leave them.
    n_starts
        Random starts to try; the lowest objective is kept. Ignored with `init`.
    seed
        Seed of the random starts.
    max_iterations
        Most passes over all modes.
    tolerance
        Stop when the violation of the optimality conditions, max |min(b, 1 - phi)| over the rows
        b of every factor times the weights, is at most this in all modes.
    max_inner
        Most steps per mode ("mu") or per row and pass.
    kappa, kappa_tolerance
        "mu": entries below `kappa_tolerance` that should grow are raised by `kappa` first, because
        multiplication cannot leave zero.
    epsilon
        Smallest model value that is divided by.
    active
        "pdnr", "pqnr": entries below this with a slope that pushes them down count as zero.
    damping
        "pdnr": first multiple of the identity added to the second derivatives.
    memory
        "pqnr": steps remembered.
    inexact
        "pdnr", "pqnr": solve rows only to a hundredth of the last pass's violation (at most
        0.01, at least `tolerance`), and with two steps in the first pass.
    progress
        Called with a `Progress` after every pass.
    n_jobs
        Threads, None for every core; the result is the same for any number.
    device
        "cpu"; "cuda", an NVIDIA card, for the sums over counts of "mu" (Newton rows stay on the
        CPU); "auto", the card where there is one and the tensor is large enough to gain.

    Returns
    -------
    StaticFit
        The model, columns summing to one, components by decreasing weight; the objective is the
        sum over observed cells of m - x log m; `kkt` is the violation found in the last pass.

    References
    ----------
    E. C. Chi and T. G. Kolda, On tensors, sparsity, and nonnegative factorizations, SIAM Journal
    on Matrix Analysis and Applications 2012 (MU). S. Hansen, T. Plantenga and T. G. Kolda,
    Newton-based optimization for Kullback-Leibler nonnegative tensor factorizations, Optimization
    Methods and Software 2015 (PDNR, PQNR).

    Examples
    --------
    >>> counts = np.outer([1, 2, 3], [4, 0, 2])
    >>> fit = cp_apr(counts, 1)
    >>> fit.converged, round(float(fit.ktensor.weights[0]), 6), counts.sum().item()
    (True, 36.0, 36)
    """
    tensor = read_tensor(x)
    check_rank(rank, tensor.shape)
    check_options(max_iterations, tolerance, n_jobs, device)
    check_choice("method", method, get_args(Method))
    check_whole("max_inner", max_inner, 1)
    check_whole("memory", memory, 1)
    check_number("epsilon", epsilon, "(0, inf)", "Use a value like 1e-10.")
    check_number("damping", damping, "(0, inf)", "Use a value like 1e-5.")
    _check_counts(tensor)
    with jobs(n_jobs) as engine:
        problem = _Problem(tensor, engine.jobs, device if method == "mu" else "cpu", rank)
    options = _Options(
        method, max_iterations, tolerance, max_inner, kappa, kappa_tolerance, epsilon, active,
        damping, memory, inexact, problem.n_jobs,
    )  # fmt: skip

    def solve(start: Sequence[FloatArray], rescale: bool) -> StaticFit:
        with one_blas_thread():
            return _solve(problem, tensor, start, rescale, options, progress)

    if init is not None:
        return solve(read_start(init, tensor.shape, rank, 0.0), False)
    return best_of(n_starts, lambda rng: solve(random_start(tensor.shape, rank, rng), True), seed)


def _check_counts(tensor: Slice) -> None:
    """Refuse negative data, naming the first such entry, and data without any count."""
    value = tensor.value
    negative = np.flatnonzero(value < 0.0)
    if negative.size:
        first = int(negative[0])
        place = np.unravel_index(first, tensor.shape) if tensor.array is not None else None
        cell = tuple(int(i) for i in (tensor.index[first] if place is None else place))
        raise DataError(
            f"cp_apr needs data that is nowhere negative, but the entry at {cell} is "
            f"{value[first]:g} ({negative.size} negative in all). Use cp_als for signed data, or "
            "remove the entries."
        )
    if not value.any():
        raise DataError(
            f"cp_apr needs at least one positive count, but all {tensor.n_observed} observed cells "
            f"of the tensor of shape {tensor.shape} are zero. Leave such tensors out."
        )


class _Problem:
    """The counts, grouped by the rows of every mode, and what a unit of each component costs."""

    def __init__(self, tensor: Slice, n_jobs: int, device: str, rank: int) -> None:
        self.n_jobs = n_jobs
        self.total = tensor.total
        self.complete = tensor.n_observed == tensor.size
        index, value = _listed(tensor) if self.complete else (tensor.index, tensor.value)
        shape = tensor.shape
        if len(shape) == 1:
            # The kernels want another mode to multiply with: one of length one.
            index = np.column_stack([index, np.zeros(len(index), dtype=np.int32)])
            shape = (*shape, 1)
        index = np.ascontiguousarray(index)
        layout = stack_factors([np.zeros((n, rank)) for n in shape])
        self.sums = cell_sums_for(device, tensor, index, value, layout)
        self.seen: tuple[RowGroups, ...] = ()
        if self.complete:
            self.groups = group_rows(index, value, shape)
        else:
            # Missing cells need ones beside the counts, which take room from the grouping.
            ones = np.ones(len(value))
            room = EXTRA_SHARE - ones.nbytes / max(1, index.nbytes + value.nbytes)
            self.groups = group_rows(index, value, shape, share=room)
            self.seen = tuple(with_value(groups, ones) for groups in self.groups)

    def phi(self, blocks: Blocks, mode: int, rows: FloatArray, epsilon: float) -> FloatArray:
        """What multiplicative updates of a mode multiply by, `rows` being its rows."""
        if self.sums is None:
            return fibre_sums(
                self.groups[mode], blocks, rows=rows, epsilon=epsilon, n_jobs=self.n_jobs
            )
        self.sums.push(mode, rows)
        return np.asarray(self.sums.phi(mode, epsilon))

    def log_sum(self, blocks: Blocks, mode: int, rows: FloatArray, epsilon: float) -> float:
        """Sum of x log m, `rows` being the rows of a mode."""
        if self.sums is None:
            return poisson_log_sum(
                self.groups[mode], blocks, rows, epsilon=epsilon, n_jobs=self.n_jobs
            )
        self.sums.push(mode, rows)
        return float(self.sums.log_sum(epsilon))

    def changed(self, blocks: Blocks, mode: int) -> None:
        """A factor is another: the card is told."""
        if self.sums is not None:
            self.sums.push(mode, blocks.data[blocks.offsets[mode] : blocks.offsets[mode + 1]])

    def cost(self, blocks: Blocks, mode: int) -> FloatArray:
        """Sum of the Khatri-Rao rows of a row's observed cells, one row if all are the same."""
        if self.complete:
            # Columns of the other factors sum to one, so the sum over all cells is one.
            cost = aligned_zeros((1, blocks.width))
            cost[:, : blocks.rank] = 1.0
            return cost
        cost = aligned_zeros((self.groups[mode].n_rows, blocks.width))
        cost[:, : blocks.rank] = mttkrp(self.seen[mode], blocks, n_jobs=self.n_jobs)
        return cost


def _listed(tensor: Slice) -> tuple[npt.NDArray[np.int32], FloatArray]:
    """Return the positive cells of a complete tensor."""
    if tensor.array is None:
        if tensor.nnz == tensor.n_listed:
            return tensor.index, tensor.value
        kept = tensor.value > 0.0
        return tensor.index[kept], tensor.value[kept]
    linear = np.flatnonzero(tensor.array)
    value = tensor.array.reshape(-1)[linear]
    index = np.empty((len(linear), tensor.ndim), dtype=np.int32)
    for mode in range(tensor.ndim - 1, -1, -1):
        linear, index[:, mode] = np.divmod(linear, tensor.shape[mode])
    return index, value


def _solve(
    problem: _Problem,
    tensor: Slice,
    start: Sequence[FloatArray],
    rescale: bool,
    options: _Options,
    progress: ProgressCallable | None,
) -> StaticFit:
    """Pass over the modes until no row violates the optimality conditions."""
    began = time.perf_counter()
    blocks, weights = _begin(problem, start, rescale)
    views = blocks.views()
    modes = range(len(views))
    phis: list[FloatArray | None] = [None for _ in modes]
    trace: list[float] = []
    for mode in modes:
        problem.changed(blocks, mode)
    # Written anew for every mode, and complete data cost the same in all of them.
    longest = aligned_zeros((max(groups.n_rows for groups in problem.groups), blocks.width))
    constant = problem.cost(blocks, 0) if problem.complete else None
    kkt, converged = math.inf, False
    message = f"made all {options.max_iterations} passes before the conditions were met"
    row_tolerance, max_steps = options.tolerance, options.max_inner
    if options.inexact and options.method != "mu":
        max_steps = min(2, max_steps)
    for iteration in range(1, options.max_iterations + 1):
        worst, steps, objective = 0.0, 0, 0.0
        before = blocks.data.copy(), weights
        for mode in modes:
            groups, rows = problem.groups[mode], longest[: problem.groups[mode].n_rows]
            cost = problem.cost(blocks, mode) if constant is None else constant
            np.multiply(views[mode], weights, out=rows[:, : blocks.rank])
            if options.method == "mu":
                phis[mode], violation, made = _multiply(
                    problem, mode, blocks, rows, cost, weights, phis[mode], options
                )
            else:
                violation, made = descend_rows(
                    groups,
                    blocks,
                    rows,
                    cost,
                    tolerance=row_tolerance,
                    memory=options.memory if options.method == "pqnr" else None,
                    max_steps=max_steps,
                    epsilon=options.epsilon,
                    active=options.active,
                    damping=options.damping,
                    n_jobs=options.n_jobs,
                )
            worst, steps = max(worst, violation), steps + made
            if mode == modes[-1]:
                logs = problem.log_sum(blocks, mode, rows, options.epsilon)
                objective = float(np.sum(rows * cost)) - logs
            weights = _unit_sums(rows[:, : blocks.rank], views[mode])
            problem.changed(blocks, mode)
        if not math.isfinite(objective):
            # Squares of values more than 150 digits apart: the pass is taken back.
            blocks.data[:], weights = before
            message = f"stopped in pass {iteration}: the objective is no longer a number"
            break
        kkt = worst
        trace.append(objective)
        if progress is not None:
            seconds = time.perf_counter() - began
            note = f"KKT violation {kkt:.2e}, {steps} inner steps"
            progress(Progress(iteration, objective, seconds, note))
        if kkt <= options.tolerance:
            converged = True
            message = f"the conditions hold to {options.tolerance:g} after pass {iteration}"
            break
        max_steps = options.max_inner
        if options.inexact:
            row_tolerance = max(options.tolerance, min(kkt / 100.0, LOOSEST))
    model = KTensor(weights, list(views[: tensor.ndim])).normalize(norm=1)
    return StaticFit(
        ktensor=model,
        objective=trace[-1] if trace else math.inf,
        trace=trace,
        iterations=len(trace),
        converged=converged,
        message=message,
        seconds=time.perf_counter() - began,
        kkt=kkt,
    )


def _begin(
    problem: _Problem, start: Sequence[FloatArray], rescale: bool
) -> tuple[Blocks, FloatArray]:
    """Return a start with columns that sum to one, and the weights that go with it."""
    factors = [factor.copy() for factor in start]
    if len(factors) < len(problem.groups):
        factors.append(np.ones((1, factors[0].shape[1])))
    weights = np.ones(factors[0].shape[1])
    for factor, groups in zip(factors, problem.groups, strict=True):
        # A row of zeros has no slope to leave by, so where there are counts it starts even.
        barren = ~factor.any(axis=1) & (np.diff(groups.starts) > 0)
        mean = factor.mean(axis=0)
        factor[barren] = np.where(mean > 0.0, mean, 1.0 / max(1, len(factor)))
        sums = factor.sum(axis=0)
        factor[:, sums == 0.0] = 1.0 / max(1, len(factor))
        factor /= np.where(sums > 0.0, sums, 1.0)
        weights *= sums
    if rescale and weights.sum() > 0.0:
        weights *= problem.total / weights.sum()
    return stack_factors(factors), weights


def _multiply(
    problem: _Problem,
    mode: int,
    blocks: Blocks,
    rows: FloatArray,
    cost: FloatArray,
    weights: FloatArray,
    phi: FloatArray | None,
    options: _Options,
) -> tuple[FloatArray, float, int]:
    """Multiplicative updates of one factor, in place; returns phi, first violation, steps."""
    rank = blocks.rank
    if phi is not None:
        shares = blocks.views()[mode]
        stuck = (shares < options.kappa_tolerance) & (phi[:, :rank] > cost[:, :rank])
        rows[:, :rank] += np.where(stuck, options.kappa * weights, 0.0)
    violation = 0.0
    for step in range(options.max_inner):
        phi = problem.phi(blocks, mode, rows, options.epsilon)
        found = float(np.abs(np.minimum(rows, cost - phi)).max(initial=0.0))
        violation = found if step == 0 else violation
        if found <= options.tolerance:
            return phi, violation, step
        rows *= np.divide(
            phi, cost, out=np.ones_like(phi), where=np.broadcast_to(cost > 0.0, phi.shape)
        )
    assert phi is not None
    return phi, violation, options.max_inner


def _unit_sums(rows: FloatArray, shares: FloatArray) -> FloatArray:
    """Write rows with columns scaled to sum one into `shares`; return the sums.

    A component that died keeps its old shares, so that other modes can still revive it.
    """
    sums = np.asarray(rows.sum(axis=0))
    np.divide(rows, sums, out=shares, where=sums > 0.0)
    return sums

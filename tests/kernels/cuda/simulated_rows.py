"""Kernels of row systems in Numba's simulator, against the CPU's past of rows; run by a test.

As `simulated.py`, which says what the simulator can do.
"""

from __future__ import annotations

import sys

import numpy as np
from numba import cuda

import kernel_twins
from onlinegcp.kernels.cuda import (
    bounded_rows,
    fisher_cells,
    newton,
    row_systems,
    unit_columns,
    weighted_cells,
)
from onlinegcp.kernels.cuda.lanes import LANES
from onlinegcp.kernels.layout import stack_factors
from onlinegcp.losses import get_loss
from onlinegcp.solvers.auto.cells import Weighted
from onlinegcp.solvers.auto.fisher_rows import FisherRows, Visit
from onlinegcp.solvers.auto.fisher_sums import FisherSums
from onlinegcp.solvers.auto.nonnegative import solve_free, solve_rows


class Within:
    """Barriers of the kernel that runs: the simulator knows `cuda` in the kernel's file only."""

    where = row_systems

    def __getattr__(self, name):
        return getattr(self.where.cuda, name)


newton.cuda = Within()

RNG = np.random.default_rng(3)
SHAPE, RANK = (2, 3), 2
LOSS = get_loss("bernoulli_logit")
FACTORS = [RNG.standard_normal((n, RANK)) for n in SHAPE]
INDEX = np.array([[0, 0], [0, 2], [1, 0], [1, 1], [1, 2]], dtype=np.int32)
VALUE, WEIGHT = np.array([1.0, 0.0, 1.0, 1.0, 0.0]), np.array([1.0, 2.0, 1.0, 0.5, 3.0])
CELLS = Weighted(INDEX, VALUE, WEIGHT)
OFFSETS = np.array([0, 2, 5], dtype=np.int64)
SHARE, GIVEN = np.array([0.8]), np.array([0.9, 0.4])


def flat(array):
    return np.ascontiguousarray(array).reshape(-1).copy()


def launch(kernel, *arguments, grid=1):
    """Run a kernel on one warp per block; arrays are changed in place."""
    there = [cuda.to_device(a) if isinstance(a, np.ndarray) else a for a in arguments]
    kernel[grid, LANES, cuda.stream(), 8192](*there)
    for ours, theirs in zip(arguments, there, strict=True):
        if isinstance(ours, np.ndarray):
            ours[...] = theirs.copy_to_host()


def same(found, expected, tolerance=1e-10):
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=1e-11)


class Problem:
    """A slice over factors that have moved away from the old ones, and a past."""

    def __init__(self, mode, full):
        self.mode, self.full = mode, full
        self.blocks = stack_factors([a.copy() for a in FACTORS])
        rows, self.width = self.blocks.data.shape
        self.past = FisherRows.start(self.blocks, bounded=False)
        root = RNG.standard_normal((rows, self.width, self.width))
        root[:, RANK:] = 0.0
        matrices = np.einsum("iab,icb->iac", root, root)
        if not full:
            matrices = np.ascontiguousarray(np.einsum("iaa->ia", matrices))[:, :, None]
        self.past.curvature = matrices
        for name in ("slope", "sensitivity"):
            drawn = RNG.standard_normal((rows, self.width))
            drawn[:, RANK:] = 0.0
            setattr(self.past, name, drawn)
        self.old = self.blocks.data + 0.3 * (np.arange(self.width) < RANK)
        self.weights = np.array([0.7, -1.3, 0.0, 0.0])
        self.sums = FisherSums(self.blocks, CELLS, LOSS).tempered(SHARE[0])
        starts = np.concatenate([[0], np.cumsum(np.bincount(INDEX[:, mode]))]).astype(np.int64)
        order = np.argsort(INDEX[:, mode], kind="stable").astype(np.int32)
        pieces, firsts = weighted_cells.cut_rows(starts, 2, int(OFFSETS[mode]))
        self.listed = (order, starts, pieces, firsts)

    def pieces(self, data):
        order, _, pieces, _ = self.listed
        width = self.width
        parts = np.zeros(len(pieces) * (width + 1 + width * (width if self.full else 1)))
        launch(
            fisher_cells.pieces_kernel(1, 2, self.full, LOSS.code), data, width, OFFSETS,
            flat(INDEX), VALUE, WEIGHT, SHARE, order, flat(pieces), np.array([len(pieces)]),
            self.mode, self.weights, 0.0, 4, 2, parts, grid=len(pieces),
        )  # fmt: skip
        return parts


def trace(curvature):
    full = curvature.shape[2] > 1
    return np.einsum("irr->i", curvature) if full else curvature.sum(axis=(1, 2))


def check_pieces():
    for full in (True, False):
        problem = Problem(1, full)
        width, parts = problem.width, problem.pieces(flat(problem.blocks.data))
        y, h = problem.sums.slopes(problem.weights)
        slopes, hessians = kernel_twins.row_sums(FACTORS, INDEX, problem.weights[:RANK], y, h, 1)
        of_row = np.repeat(np.arange(3), np.diff(problem.listed[3]))
        for i in range(3):
            found = parts.reshape(len(of_row), -1)[of_row == i].sum(axis=0)
            same(found[:RANK], slopes[i])
            same(found[width], problem.sums.row_values(problem.weights, 1)[i])
            if full:
                lower = np.tril(found[width + 1 :].reshape(width, width)[:RANK, :RANK])
                same(lower, np.tril(hessians[i]))
            else:
                same(found[width + 1 :][:RANK], np.diag(hessians[i]))


def check_moves_and_what_they_leave():
    for full, bounded in ((True, False), (True, True), (False, False)):
        problem = Problem(0, full)
        past, width, blocks = problem.past, problem.width, problem.blocks
        if bounded:
            np.abs(blocks.data, out=blocks.data)
            blocks.data[0, 0] = 0.0
        data, order, starts, _, firsts = flat(blocks.data), *problem.listed
        args = (past, problem.sums, problem.weights, problem.old, GIVEN[0], 0)
        visit = Visit(*args, bounded=bounded)
        holds = np.zeros(2 * width)
        holds[:width] = visit.hold
        given = (flat(problem.old), flat(past.curvature), flat(past.slope))
        scratch = np.zeros(1)
        launch(
            row_systems.move_kernel(1, 2, full, full, LOSS.code), data, width, RANK, OFFSETS,
            flat(INDEX), VALUE, WEIGHT, SHARE, order, starts, firsts, 0, problem.weights, 0.0,
            problem.pieces(data), *given, GIVEN, holds, bounded, visit.zeroing, scratch, grid=2,
        )  # fmt: skip
        visit.move()
        same(data, flat(blocks.data), 1e-8)
        new = [np.zeros_like(flat(a)) for a in (past.curvature, past.slope, past.sensitivity)]
        traces = np.zeros(10)
        lam_before = GIVEN[0] * past.curvature[:2]
        launch(
            row_systems.store_kernel(full, full), data, width, RANK, 0, firsts,
            problem.pieces(data), *given, flat(past.sensitivity), GIVEN, holds[:width].copy(),
            True, visit.zeroing, *new, traces, scratch, grid=2,
        )  # fmt: skip
        visit.store(GIVEN[1])
        for found, expected in zip(new, (past.curvature, past.slope, past.sensitivity),
                                   strict=True):  # fmt: skip
            n = expected[:2].size
            same(found[:n], flat(expected[:2]), 1e-7)

        same(traces.reshape(5, 2)[:2, 0], trace(past.curvature[:2]))
        same(traces.reshape(5, 2)[:2, 1], trace(lam_before))


def check_bounded_rows():
    # Rows whose optimum has no zeros, some, and one whose start has others.
    rank, width, n = 3, 4, 4
    root = RNG.standard_normal((rank, 5))
    system, follow, kept = root @ root.T, RNG.random((rank, rank)), RNG.random((rank, rank))
    shares, given = RNG.random(rank), np.array([0.9, 0.4])
    old = np.abs(RNG.standard_normal((n, rank)))
    old[2, 0] = 0.0
    products, slope = 3.0 * RNG.standard_normal((n, rank)), RNG.random((n, rank)) * (old == 0.0)
    products[0] = 30.0
    sensitivity = RNG.standard_normal((n, rank))
    target = products * shares + old @ kept - given[0] * slope
    new = solve_rows(system, target, old)
    assert (new > 0.0).all(axis=1).any()
    assert (new == 0.0).any()
    left = np.where(new > 0.0, 0.0, np.maximum(new @ system - target, 0.0))
    moved = (sensitivity + given[1] * (old - new)) @ follow

    def wide(a):
        return flat(np.pad(a, [(0, width - rank) if len(a) == rank else (0, 0), (0, 1)]))

    def rows_of(a):
        return flat(np.pad(a, [(1, 0), (0, 1)]))  # the mode begins in the second row

    out = [np.zeros((n + 1) * width) for _ in range(3)]
    Within.where = bounded_rows
    launch(
        bounded_rows.bounded_rows_kernel(1, True), rows_of(products), rows_of(old), rows_of(slope),
        rows_of(sensitivity), wide(system), wide(kept), wide(follow), np.append(shares, 0.0), given,
        True, 3, 50, 1e-10, width, rank, 1, n, *out, np.zeros(1), grid=2,
    )  # fmt: skip
    Within.where = row_systems
    for found, expected in zip(out, (new, left, solve_free(system, moved, new > 0.0)), strict=True):
        same(found.reshape(n + 1, width)[1:, :rank], expected, 1e-9)
    lengths, lost = np.array([2.0, 3.0, 1.0, 1.0]), np.array([0.0, 0.0, 1.0, 0.0])
    data, held = flat(out[0]), flat(out[1])
    launch(
        bounded_rows.restore_kernel(1), lengths, lost, rows_of(old), width, np.array([0, n + 1]),
        np.array([0]), data, held,
    )  # fmt: skip
    gone = lost[:rank] > 0.0
    same(data.reshape(-1, width)[1:, :rank], np.where(gone, old, new))
    same(held.reshape(-1, width)[1:, :rank], left * np.where(gone, 0.0, lengths[:rank]))


def check_unit_columns():
    for full in (True, False):
        problem = Problem(0, full)
        past, width, blocks = problem.past, problem.width, problem.blocks
        np.abs(blocks.data, out=blocks.data)
        blocks.data[2:, 1] = 0.0  # a column that was lost
        chunks, modes_of = np.array([0, 2, 5]), np.array([0, 1])
        arrays = [flat(a) for a in (blocks.data, past.curvature, past.slope, past.sensitivity)]
        squares, old = (
            np.concatenate([(a[:2] ** 2).sum(axis=0), (a[2:] ** 2).sum(axis=0)])
            for a in (blocks.data, problem.old)
        )
        columns = 2 * width + unit_columns.ENDS
        traces, parts = np.arange(10.0), np.zeros(2 * columns)
        launch(
            unit_columns.unit_kernel(1, full), flat(problem.old), squares, old, True, width, chunks,
            modes_of, traces, *arrays, parts, grid=2,
        )  # fmt: skip
        launch(
            unit_columns.straighten_kernel(1), parts, columns, width, chunks, modes_of, arrays[0],
            arrays[3], grid=2,
        )  # fmt: skip
        past._restore_lost(blocks, problem.old)
        past._normalise(blocks, np.ones(width))
        for found, expected in zip(
            arrays, (blocks.data, past.curvature, past.slope, past.sensitivity), strict=True
        ):
            same(found, flat(expected))
        same(parts.reshape(2, columns)[:, 2 * width : 2 * width + 2].sum(axis=0), [20.0, 25.0])


def check_tallies():
    problem = Problem(0, True)
    data, count, width = flat(problem.blocks.data), np.array([5]), problem.width
    lists = (width, OFFSETS, flat(INDEX), VALUE, WEIGHT, count, SHARE, 4, problem.weights, 0.0)
    out = np.zeros(fisher_cells.TALLIES)
    launch(fisher_cells.tally_kernel(1, 2, LOSS.code), data, *lists, out)
    same(out[0], problem.sums.value(problem.weights))
    same(out[1] / out[2], problem.sums.dispersion(problem.weights))
    out, change = np.zeros(2), flat(problem.past.sensitivity)
    launch(fisher_cells.change_kernel(1, 2, LOSS.code), data, change, *lists, out)
    same(out, problem.sums.along(problem.weights, problem.past.sensitivity))


if __name__ == "__main__":
    for name, check in list(globals().items()):
        if name.startswith("check_") and name in (sys.argv[1:] or [name]):
            check()
            print(name, flush=True)

"""Kernels of the paper's solver and of the static methods in Numba's simulator; run by a test.

As `simulated.py`: one warp, few cells, against NumPy and the CPU.
"""

from __future__ import annotations

import sys

import numpy as np
from numba import cuda

import kernel_twins
from onlinegcp import Slice, get_loss
from onlinegcp.kernels.cuda.cell_sums import CellSums
from onlinegcp.kernels.cuda.sgd import draws, history, jobs, sorting
from onlinegcp.kernels.cuda.sgd.tall import matrix_size, place_of
from onlinegcp.kernels.layout import stack_factors
from onlinegcp.kernels.sgd.plan import FoldedHistory
from onlinegcp.solvers.sgd import SgdSettings, solve_sgd
from onlinegcp.solvers.sgd.sampling import Sampler

LANES = 32
RNG = np.random.default_rng(11)
SHAPE, RANK = (5, 4, 3), 3
FACTORS = [RNG.random((n, RANK)) + 0.1 for n in SHAPE]
INDEX = np.argwhere(RNG.random(SHAPE) < 0.4).astype(np.int32)
VALUE = 1.0 + RNG.poisson(1.0, len(INDEX))
X = Slice(INDEX, VALUE, SHAPE)
WEIGHTS = RNG.random(RANK) + 0.5


def check_sorting():
    shape, n, room = (600, 7), 40, 64
    offsets = np.array([0, 600, 607], np.int64)
    rows = np.zeros((2, room), np.int32)
    rows[:, :n] = [RNG.integers(0, m, n) + o for m, o in zip(shape, offsets, strict=False)]
    sort = sorting.sort_for(shape, room)
    assert sort.passes == 2
    assert sort.tiles > 1
    numbers = np.zeros(draws.NUMBERS, np.int64)
    numbers[draws.COUNT] = n
    send = cuda.to_device
    there, table, flat = send(numbers), send(offsets), send(rows.reshape(-1))
    orders = [send(np.zeros(2 * room, np.int32)) for _ in range(2)]
    counts = send(np.zeros(2 * sort.tiles * sort.digits, np.int32))
    stream, grid = cuda.stream(), (sort.tiles, 2, 1)
    common = (there, flat, table, 2, room, 0)
    for number in range(sort.passes):
        how = (orders[(number + 1) % 2], number, sort.bits, sort.tile, counts)
        sorting.counts_kernel()[grid, LANES, stream, sort.counts_bytes](*common, *how)
        sorting.places_kernel()[2, LANES, stream, sort.counts_bytes](
            0, sort.tiles, sort.bits, counts
        )
        sorting.sort_kernel()[grid, LANES, stream, sort.places_bytes](
            *common, *how, orders[number % 2]
        )
    order = orders[1].copy_to_host().reshape(2, room)[:, :n]
    bounds, lists = send(np.zeros(609, np.int32)), send(np.zeros(4 * room, np.int32))
    data, weights = RNG.random(room), RNG.random(room)
    sorted_data = [send(np.zeros(2 * room)) for _ in range(2)]
    sorting.bounds_kernel(2, True)[(2, 2, 1), LANES, stream](
        there, flat, table, room, 0, orders[1], send(data), send(weights), bounds, lists,
        *sorted_data
    )  # fmt: skip
    bounds, lists = bounds.copy_to_host(), lists.copy_to_host().reshape(2, 2, room)
    sorted_data = [found.copy_to_host().reshape(2, room) for found in sorted_data]
    for k in range(2):
        expected = np.argsort(rows[k, :n], kind="stable")
        np.testing.assert_array_equal(order[k], expected)
        np.testing.assert_array_equal(lists[k, 0, :n], rows[k, expected])
        np.testing.assert_array_equal(lists[k, 1, :n], rows[1 - k, expected])
        for found, given in zip(sorted_data, (data, weights), strict=True):
            np.testing.assert_array_equal(found[k, :n], given[expected])
        starts = np.searchsorted(rows[k, expected], np.arange(offsets[k], offsets[k + 1] + 1))
        found = bounds[offsets[k] + k : offsets[k + 1] + k + 1]
        np.testing.assert_array_equal(found, starts)


def check_history():
    blocks = stack_factors(FACTORS)
    old = stack_factors([a * RNG.uniform(0.8, 1.2, a.shape) for a in FACTORS])
    width, send = blocks.width, cuda.to_device
    S = np.zeros((width, width))
    S[:RANK, :RANK] = RNG.random((RANK, RANK))
    chunks = send(np.array([0, 3, 5, 9, 12], np.int64))
    bounds = send(np.array([0, 2, 3, 4], np.int64))
    square = width * width
    size = matrix_size(width)
    parts, totals, folded = send(np.zeros(8 * square)), send(np.zeros(6 * square)), None
    data, past = send(blocks.data.reshape(-1)), send(old.data.reshape(-1))
    stream = cuda.stream()
    history.grams_kernel(width, 4)[(4, 1), LANES, stream, 4096](data, past, chunks, parts)
    S_there, offsets = send(S.reshape(-1)), send(blocks.offsets)
    for direct in (False, True):
        folded = send(np.zeros(6 * size))
        if direct:
            history.fold_rows_kernel(3)[(1, 1), LANES, stream, 4096](
                width, offsets, data, past, S_there, folded, totals
            )
        else:
            history.fold_kernel(3)[1, LANES, stream, 4096](
                width, bounds, parts, S_there, folded, totals
            )
        rows, columns = np.indices((RANK, RANK))
        found = folded.copy_to_host().reshape(3, 2, size)[:, :, place_of(rows, columns, 1)]
        new, before = blocks.views(), old.views()
        for k in range(3):
            B, C = S[:RANK, :RANK].copy(), -S[:RANK, :RANK]
            for j in range(3):
                if j != k:
                    B *= new[j].T @ new[j]
                    C = C * (before[j].T @ new[j])
            np.testing.assert_allclose(found[k], [B, C], rtol=1e-12)


def _solve(sampler, update, step, loss, **options):
    settings = SgdSettings(
        step=step, rate=0.01, epochs=1, iterations=1, sampler=sampler, objective_sampler=sampler,
        ridge=0.1, weight_ridge=0.2,
    )  # fmt: skip
    options |= {"update": update, "seed": 3}
    here, there = (
        solve_sgd(X, FACTORS, WEIGHTS, get_loss(loss), settings, kernels=kernels, **options)
        for kernels in ("reference", "cuda")
    )
    np.testing.assert_allclose(there.trace, here.trace, rtol=1e-12)
    np.testing.assert_allclose(there.weights, here.weights, rtol=1e-12)
    for ours, theirs in zip(here.factors, there.factors, strict=True):
        np.testing.assert_allclose(theirs, ours, rtol=1e-12)


def check_factors():
    old = stack_factors([a * RNG.uniform(0.8, 1.2, a.shape) for a in FACTORS])
    past = RNG.random((4, RANK))
    tie = FoldedHistory(past.T @ past, old, np.array([0.3, 0.0, 0.1]))
    _solve(Sampler("stratified", 9, 11), ("factors",), "adam", "poisson", history=tie)


def check_panels():
    old = stack_factors([a * RNG.uniform(0.8, 1.2, a.shape) for a in FACTORS])
    past, before = RNG.random((4, RANK)), jobs.LONG_MODE
    tie = FoldedHistory(past.T @ past, old, np.array([0.3, 0.0, 0.1]))
    jobs.LONG_MODE = 4  # two modes are long
    _solve(Sampler("semi_stratified", 9, 11), ("factors",), "amsgrad", "poisson", history=tie)
    jobs.LONG_MODE = before


def check_weights():
    _solve(
        Sampler("semi_stratified", 8, 7), ("weights",), "amsgrad", "bernoulli_odds",
        row_weights=np.array([0.5, 2.0, 1.0]),
    )  # fmt: skip


def check_cell_sums():
    blocks = stack_factors(FACTORS)
    sums = CellSums(INDEX, VALUE, blocks)
    for k in range(3):
        sums.push(k, blocks.data[blocks.offsets[k] : blocks.offsets[k + 1]])
    rest = np.prod([FACTORS[k][INDEX[:, k]] for k in (0, 2)], axis=0)
    expected = np.zeros((SHAPE[1], RANK))
    np.add.at(expected, INDEX[:, 1], VALUE[:, None] * rest)
    np.testing.assert_allclose(sums.products(1)[:, :RANK], expected, rtol=1e-12)
    phi = kernel_twins.poisson_phi(INDEX, VALUE, FACTORS, 1, FACTORS[1])
    np.testing.assert_allclose(sums.phi(1, 1e-10)[:, :RANK], phi, rtol=1e-12)
    m = (rest * FACTORS[1][INDEX[:, 1]]).sum(axis=1)
    np.testing.assert_allclose(sums.log_sum(1e-10), VALUE @ np.log(m), rtol=1e-12)


if __name__ == "__main__":
    for name, check in list(globals().items()):
        if name.startswith("check_") and name in (sys.argv[1:] or [name]):
            check()
            print(name, flush=True)

"""Single kernels in Numba's simulator, against NumPy and the CPU's kernels; run by a test.

The simulator makes a Python thread of every thread of the card: one warp, few cells. Run as a
program with NUMBA_ENABLE_CUDASIM=1; it names each check that holds.
"""

from __future__ import annotations

import sys

import numpy as np
from numba import cuda

import kernel_twins
from onlinegcp.kernels.auto import (
    component_draws,
    conjugate_rows,
)
from onlinegcp.kernels.auto.arguments import Blend
from onlinegcp.kernels.cuda import (
    cells,
    draws,
    every_cell,
    mma,
    newton,
    parts,
    products,
    remembering,
    rows,
    shares,
)
from onlinegcp.kernels.cuda.lanes import LANES
from onlinegcp.kernels.layout import stack_factors
from onlinegcp.ktensor import KTensor
from onlinegcp.losses.formulas import EPS
from onlinegcp.losses.traits import OddsForm
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto import forgetting
from onlinegcp.solvers.auto.cells import Cells
from onlinegcp.solvers.auto.newton import _one_of_each, solve_odds_form
from onlinegcp.solvers.auto.odds_sums import OddsSums
from onlinegcp.solvers.cuda.conjugate import rules_for
from onlinegcp.solvers.objective import log_sum

RNG = np.random.default_rng(7)
SHAPE, RANK = (3, 4, 2), 3
FACTORS = [RNG.random((n, RANK)) + 0.1 for n in SHAPE]
FACTORS = [a / a.sum(axis=0) for a in FACTORS]
BLOCKS = stack_factors(FACTORS)
WIDTH, OFFSETS = BLOCKS.width, BLOCKS.offsets
INDEX = np.array([[0, 1, 0], [0, 3, 1], [1, 0, 0], [1, 2, 1], [2, 2, 0]], dtype=np.int32)
VALUE = np.array([2.0, 1.0, 4.0, 3.0, 1.0])
WEIGHTS = np.array([3.0, 1.0, 2.0, 0.0])
NEVER, ALWAYS = np.zeros(8, dtype=np.int64), np.ones(8, dtype=np.int64)
DATA, LIST = BLOCKS.data.reshape(-1).copy(), INDEX.reshape(-1).copy()
CHUNKS = np.array([0, 3, 7, 9], dtype=np.int64)
MODES_OF = np.array([0, 1, 2], dtype=np.int64)
BASES = np.array([0, 3 * WIDTH, 3 * WIDTH + 2 * 4 * WIDTH], dtype=np.int64)
COPIES = np.array([1, 2, 1], dtype=np.int64)


def launch(kernel, *arguments, grid=1, shared=4096):
    """Run a kernel on one warp per block; arrays are changed in place."""
    there = [cuda.to_device(a) if isinstance(a, np.ndarray) else a for a in arguments]
    kernel[grid, LANES, cuda.stream(), shared](*there)
    for ours, theirs in zip(arguments, there, strict=True):
        if isinstance(ours, np.ndarray):
            ours[...] = theirs.copy_to_host()


def same(found, expected, tolerance=1e-12):
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=1e-13)


def check_sums():
    count = np.array([len(VALUE), 1], dtype=np.int64)
    out = np.zeros(WIDTH + 1)
    kernel, lists = cells.sums_kernel(1, 3), (DATA, WIDTH, OFFSETS, LIST, VALUE, count, 4, WEIGHTS)
    launch(kernel, *lists, np.array([EPS, 0.0]), NEVER, out)
    logs, pull, _ = kernel_twins.listed_sums(FACTORS, INDEX, VALUE, WEIGHTS[:RANK])
    same(out[:RANK], pull)
    same(out[WIDTH], logs)
    floor = float(np.median(KTensor(WEIGHTS[:RANK], FACTORS).full()))
    launch(kernel, *lists, np.array([0.0, floor]), NEVER, out)
    same(out[WIDTH], log_sum(Slice(INDEX, VALUE, SHAPE), FACTORS, WEIGHTS[:RANK], floor))


def check_curvature():
    # A matrix in one square, and one of three, of which two lie partly beyond its last column.
    for rank in (RANK, 19):
        factors = [RNG.random((n, rank)) for n in SHAPE]
        blocks, weights = stack_factors(factors), RNG.random(rank)
        width, data = blocks.width, blocks.data.reshape(-1).copy()
        out, count = np.zeros(width + 1 + width * width), np.array([len(VALUE)])
        launch(
            cells.curved_kernel(1, 3), data, width, OFFSETS, LIST, VALUE, count,
            np.pad(weights, (0, width - rank)), NEVER, 4, mma.aside(width), out,
        )  # fmt: skip
        logs, pull, hessian = kernel_twins.listed_sums(factors, INDEX, VALUE, weights)
        found = out[width + 1 :].reshape(width, width)[:rank, :rank]
        same(np.tril(found), np.tril(hessian))
        same(out[:rank], pull)
        same(out[width], logs)


def check_picking():
    picked, values = np.zeros(6, dtype=np.int32), np.zeros(2)
    launch(cells.pick_kernel(3), LIST, VALUE, np.array([2, 2]), picked, values)
    which = _one_of_each(len(VALUE), 2)
    same(picked.reshape(2, 3), INDEX[which])
    same(values, 2 * VALUE[which])


def check_shares():
    # Mode 1 goes through copies, mode 2 through shared memory, mode 0 through runs.
    sensitivity = RNG.standard_normal(BLOCKS.data.shape) * (np.arange(WIDTH) < RANK)
    ratio = np.empty(BLOCKS.data.shape, dtype=np.float32)
    conjugate_rows.ratios(sensitivity, BLOCKS.data, 0, len(ratio), ratio)
    fixed = np.zeros(BASES[2] + 2 * WIDTH, dtype=np.int64)
    scale, out = np.array([2.0**50]), np.zeros(2 * WIDTH + 2)
    count = np.array([len(VALUE)], dtype=np.int64)
    launch(
        shares.shares_kernel(1, 3, True), DATA, WIDTH, OFFSETS, LIST, VALUE, count, 8, WEIGHTS,
        ratio.reshape(-1), scale, -1, 2, 2, BASES, COPIES, fixed, ALWAYS, out,
    )  # fmt: skip
    phi, sums = np.zeros(BLOCKS.data.size), np.zeros(3 * WIDTH)
    launch(
        rows.settle_kernel(1), fixed, WIDTH, CHUNKS, MODES_OF, 0, OFFSETS, BASES, COPIES, scale, 0,
        phi, sums, grid=3,
    )  # fmt: skip
    expected = kernel_twins.responsibilities(FACTORS, INDEX, VALUE, WEIGHTS[:RANK])
    same(phi.reshape(-1, WIDTH)[:, :RANK], np.concatenate(expected))
    same(sums.reshape(3, WIDTH)[:, :RANK], np.array([a.sum(axis=0) for a in expected]))
    assert not fixed.any(), "what was read must be zero for the next slice"
    at = INDEX + OFFSETS[:3]
    part = np.prod([BLOCKS.data[at[:, k]] for k in range(3)], axis=0) * WEIGHTS
    m = part.sum(axis=1) + EPS
    tau = part / m[:, None] * sum(ratio[at[:, k]].astype(float) for k in range(3))
    common, logs = VALUE @ tau.sum(axis=1) ** 2, VALUE @ np.log(m)
    same(out, np.concatenate([-VALUE @ tau, VALUE @ tau**2, [common, logs]]))


def check_small_solve():
    for n in range(1, 6):  # columns go in pairs
        root = RNG.standard_normal((n, n))
        matrix, right = root @ root.T + np.eye(n), RNG.standard_normal(n)
        held = np.zeros((n + 1, n + 1))
        held[:n, :n] = np.tril(matrix)
        held[n, :n] = right
        held[:n, n] = 1e-14
        held = held.reshape(-1)
        launch(newton.solve_kernel(), held, n)
        same(held.reshape(n + 1, n + 1)[n, :n], np.linalg.solve(matrix, right), 1e-9)


def check_newton():
    # The cells are summed by NumPy; what the card decides must be what the CPU's loop decides.
    numbers, vectors = np.zeros(newton.NUMBERS), np.zeros(newton.VECTORS * WIDTH)
    control, column_sums = np.zeros(newton.CONTROLS, dtype=np.int64), np.ones(WIDTH)
    start, given = np.array([1.0, 2.0, 1.0, 0.0]), np.array([VALUE.sum(), 1e-9, 20.0])
    launch(
        newton.begin_kernel(), RANK, WIDTH, 1, 2, start, column_sums, given, control, numbers,
        vectors,
    )  # fmt: skip
    kept, scratch = np.zeros(WIDTH * WIDTH), np.zeros((RANK + 1) ** 2)
    for _ in range(40):
        trial = vectors.reshape(-1, WIDTH)[newton.TRIAL, :RANK]
        logs, pull, curved = kernel_twins.listed_sums(FACTORS, INDEX, VALUE, trial)
        sums, hessian = np.zeros(WIDTH + 1), np.zeros((WIDTH, WIDTH))
        sums[:RANK], sums[WIDTH], hessian[:RANK, :RANK] = pull, logs, curved
        launch(
            newton.judge_kernel(True, False), RANK, WIDTH, sums, sums, sums, hessian.reshape(-1),
            control, numbers, vectors, kept, scratch,
        )  # fmt: skip
        if control[cells.STOPPED]:
            break
    listed = Cells(INDEX, VALUE, True, INDEX, VALUE, VALUE.sum())
    found = solve_odds_form(
        OddsSums(BLOCKS, listed, OddsForm(linear=True)),
        start * VALUE.sum() / start.sum(),
        tolerance=1e-9,
        max_steps=20,
    )
    assert control[cells.STOPPED]
    assert control[newton.STEPS] == found.steps
    same(numbers[newton.OBJECTIVE], found.objective)
    same(vectors.reshape(-1, WIDTH)[newton.WEIGHTS], found.weights, 1e-8)


def check_newton_on_odds():
    # The same where the other part of the loss is not linear in the weights.
    form, value = OddsForm(linear=False), np.ones(len(VALUE))
    sums_of = OddsSums(BLOCKS, Cells(INDEX, value, True, INDEX, value, value.sum()), form)
    numbers, vectors = np.zeros(newton.NUMBERS), np.zeros(newton.VECTORS * WIDTH)
    control, ones = np.zeros(newton.CONTROLS, dtype=np.int64), np.ones(WIDTH)
    start, given = np.array([1.0, 2.0, 1.0, 0.0]), np.array([0.0, 1e-9, 20.0])
    launch(newton.begin_kernel(), RANK, WIDTH, 1, 2, start, ones, given, control, numbers, vectors)
    kept, scratch = np.zeros(WIDTH * WIDTH), np.zeros((RANK + 1) ** 2)
    for _ in range(40):
        trial = vectors.reshape(-1, WIDTH)[newton.TRIAL].copy()
        logs, pull, curved = sums_of.listed(trial, curved=True)
        other, slope = sums_of.tangent(trial)
        sums, push, more = np.append(pull, logs), np.append(slope, other), np.zeros(WIDTH + 1)
        # What comes with the listed cells is added by the card.
        more[:], push[:] = 0.25 * push, 0.75 * push
        launch(
            newton.judge_kernel(True, True), RANK, WIDTH, sums, push, more, curved.reshape(-1),
            control, numbers, vectors, kept, scratch,
        )  # fmt: skip
        if control[cells.STOPPED]:
            break
    found = solve_odds_form(sums_of, start, tolerance=1e-9, max_steps=20)
    assert control[cells.STOPPED]
    assert control[newton.STEPS] == found.steps
    same(numbers[newton.OBJECTIVE], found.objective)
    same(vectors.reshape(-1, WIDTH)[newton.WEIGHTS], found.weights, 1e-8)


def check_rows():
    size = BLOCKS.data.size
    old, rate, phi = BLOCKS.data, RNG.random(BLOCKS.data.shape), RNG.random(BLOCKS.data.shape)
    for a in (rate, phi):
        a[:, RANK:] = 0.0
    lam, counts = np.full(WIDTH, 0.9), np.array([2.0, 1.0, 0.5, 0.0])
    data, sums = np.zeros(size), np.zeros(3 * WIDTH)
    flat = [a.reshape(-1).copy() for a in (old, phi, rate)]
    launch(rows.blend_kernel(1), *flat, lam, counts, True, WIDTH, CHUNKS, 0, data, sums, grid=3)
    expected, column_sums = np.zeros_like(old), np.zeros(WIDTH)
    parts_of = Blend(old, phi, rate, lam, counts[None, :])
    for k in range(3):
        conjugate_rows.blend(parts_of, OFFSETS[k], OFFSETS[k + 1], column_sums, expected)
        same(sums.reshape(3, WIDTH)[k], column_sums)
    for k in range(3):
        mine, scales, weights = sums[k * WIDTH :][:WIDTH].copy(), np.zeros(WIDTH), np.ones(WIDTH)
        launch(rows.scale_kernel(1), mine, WIDTH, CHUNKS, k, data, scales, weights)
        same(scales[:RANK], mine[:RANK])
        same(weights[:RANK], mine[:RANK])
    same(data.reshape(-1, WIDTH), expected)
    lift, floor = np.full(WIDTH, 0.3), np.array([0.05, 0.2, 0.01, 0.0])
    before = RNG.standard_normal(old.shape) * (np.arange(WIDTH) < RANK)
    new_rate, after = np.zeros(size), np.zeros(size)
    floors, ones = np.tile(floor, 3), np.ones(3 * WIDTH)
    added = np.zeros(3 * rows.ABSORB_SUMS * WIDTH)
    launch(
        rows.absorb_kernel(1), *flat, lam, counts, True, WIDTH, CHUNKS, MODES_OF, 0, ones, ones,
        lift, floors, True, before.reshape(-1).copy(), data, new_rate, after, added, grid=3,
    )  # fmt: skip
    launch(
        rows.finish_kernel(1), added, floors, True, WIDTH, CHUNKS, MODES_OF, 0, data, after, grid=3
    )
    for k in range(3):
        conjugate_rows.absorb(
            parts_of, OFFSETS[k], OFFSETS[k + 1], np.ones(WIDTH), lift, floor, True, before,
            expected,
        )  # fmt: skip
    same(data.reshape(-1, WIDTH), expected)
    same(after.reshape(-1, WIDTH), before)
    same(new_rate.reshape(-1, WIDTH), parts_of.rate)


def check_every_cell():
    count, out = np.array([24], dtype=np.int64), np.zeros(WIDTH + 1)
    none, one = np.zeros(1, dtype=np.int32), np.zeros(1)
    launch(
        every_cell.tangent_kernel(1, 3, True), DATA, WIDTH, OFFSETS, none, one, count, 8, WEIGHTS,
        False, 1.0, 0.0, NEVER, out,
    )  # fmt: skip
    value, pull, rates = kernel_twins.tangent_sums(FACTORS, WEIGHTS[:RANK])
    same(out[:RANK], pull)
    same(out[WIDTH], value)
    scale = np.zeros(WIDTH)
    launch(every_cell.bound_kernel(), WEIGHTS, WIDTH, np.ones(1), scale)
    fixed = np.zeros(BASES[2] + 2 * WIDTH, dtype=np.int64)
    launch(
        every_cell.rates_kernel(1, 3, True), DATA, WIDTH, OFFSETS, none, one, count, 8, WEIGHTS,
        False, 1.0, 0.0, 1, scale, BASES, COPIES, fixed,
    )  # fmt: skip
    found, sums = np.zeros(BLOCKS.data.size), np.zeros(3 * WIDTH)
    launch(
        rows.settle_kernel(1), fixed, WIDTH, CHUNKS, MODES_OF, 1, OFFSETS, BASES, COPIES, scale, 1,
        found, sums,
    )  # fmt: skip
    same(found.reshape(-1, WIDTH)[3:7, :RANK], rates[1])
    by_row = np.zeros((9, 2, WIDTH))
    launch(
        every_cell.grid_rates_kernel(1, 3), DATA, WIDTH, OFFSETS, 0, WEIGHTS, False, 1.0,
        by_row.reshape(-1), grid=(9, 2),
    )  # fmt: skip
    same(by_row.sum(axis=1)[:, :RANK], np.concatenate(rates))


def check_settle_and_blend():
    old, rate, exposure = (RNG.random(BLOCKS.data.shape) for _ in range(3))
    lam, scale = np.full(WIDTH, 0.9), np.array([2.0**40])
    counts = RNG.random((2, 4, WIDTH))  # two copies of the mode's rows
    fixed = np.zeros(BASES[2] + 2 * WIDTH, dtype=np.int64)
    fixed[BASES[1] : BASES[2]] = np.rint(counts * scale[0]).reshape(-1)
    phi, data, sums = np.zeros(BLOCKS.data.size), np.zeros(BLOCKS.data.size), np.zeros(6 * WIDTH)
    flat = [a.reshape(-1).copy() for a in (old, rate)]
    launch(
        rows.settle_blend_kernel(1), fixed, WIDTH, CHUNKS, 1, 3, 4, int(BASES[1]), 2, scale, *flat,
        lam, exposure.reshape(-1).copy(), False, phi, data, sums,
    )  # fmt: skip
    found = counts.sum(axis=0)
    prior = lam * rate[3:7]
    new = (prior * old[3:7] + found) / (prior + exposure[3:7])
    same(phi.reshape(-1, WIDTH)[3:7], found, 1e-10)
    same(data.reshape(-1, WIDTH)[3:7], new, 1e-10)
    same(sums.reshape(3, 2, WIDTH)[1], [new.sum(axis=0), found.sum(axis=0)], 1e-10)
    assert not fixed.any()


def check_draws():
    cumulative = np.concatenate([np.cumsum(a, axis=0) for a in FACTORS])
    padded = np.zeros(BLOCKS.data.shape)
    padded[:, :RANK] = cumulative
    wanted, key = np.empty((RANK * 5, 3), dtype=np.int64), np.array([12345], dtype=np.uint64)
    component_draws.draw_cells(padded, OFFSETS, 0, RANK, 5, key[0], wanted)
    found = np.zeros(wanted.size, dtype=np.int64)
    launch(
        draws.draw_kernel(), padded.reshape(-1), WIDTH, OFFSETS, 3, RANK, 5, key, found,
        grid=(RANK, 3),
    )  # fmt: skip
    same(found.reshape(-1, 3) - OFFSETS[:3], wanted)


def check_products():
    array = RNG.standard_normal(SHAPE)
    count, norm = np.array([array.size], dtype=np.int64), np.sqrt((array**2).sum())
    scale, fixed = np.full(WIDTH, 2.0**55 / norm), np.zeros(BASES[2] + 2 * WIDTH, dtype=np.int64)
    launch(
        products.products_kernel(1, 3, True), DATA, WIDTH, OFFSETS, np.zeros(1, dtype=np.int32),
        array.reshape(-1), count, 8, 1, scale, BASES, COPIES, fixed,
    )  # fmt: skip
    found, sums = np.zeros(BLOCKS.data.size), np.zeros(3 * WIDTH)
    launch(
        rows.settle_kernel(1), fixed, WIDTH, CHUNKS, MODES_OF, 1, OFFSETS, BASES, COPIES, scale, 1,
        found, sums,
    )  # fmt: skip
    expected = kernel_twins.dense_products(array, FACTORS, 1)
    same(found.reshape(-1, WIDTH)[3:7, :RANK], expected)


def check_least_squares():
    size, shape = BLOCKS.data.size, BLOCKS.data.shape
    left, right, third = RNG.random(shape), RNG.random(shape), RNG.random(shape)
    out = np.zeros(3 * WIDTH * WIDTH)
    launch(products.gram_kernel(), left.reshape(-1), right.reshape(-1), WIDTH, CHUNKS, 1, 2, out)
    same(out.reshape(3, WIDTH, WIDTH)[1], left[3:7].T @ right[3:7])
    towards, kept, follow = RNG.random((3, WIDTH, WIDTH))
    data, after = np.zeros(size), np.zeros(size)
    launch(
        products.rows_kernel(1), left.reshape(-1), right.reshape(-1), third.reshape(-1),
        towards.reshape(-1), kept.reshape(-1), follow.reshape(-1), np.array([0.3]), True, WIDTH,
        CHUNKS, 2, data, after,
    )  # fmt: skip
    new = left @ towards + right @ kept
    same(data.reshape(shape)[7:], new[7:])
    same(after.reshape(shape)[7:], ((third + 0.3 * (right - new)) @ follow)[7:])
    lengths, along = RNG.random((3, WIDTH)) + 1, RNG.random((3, WIDTH))
    data, after, sums = left.reshape(-1).copy(), right.reshape(-1).copy(), np.zeros(6 * WIDTH)
    launch(
        products.project_kernel(1), lengths.reshape(-1), along.reshape(-1), WIDTH, CHUNKS, MODES_OF,
        data, after, sums, grid=3,
    )  # fmt: skip
    which = np.repeat([0, 1, 2], [3, 4, 2])
    scaled = left / lengths[which]
    turned = right / lengths[which] - scaled * along[which]
    same(data.reshape(shape), scaled)
    same(after.reshape(shape), turned)
    same(sums.reshape(3, 2, WIDTH)[0], [(turned[:3] ** 2).sum(axis=0), scaled[:3].sum(axis=0)])


def check_forgetting():
    # Slopes of every size and sign, so that each bound is met; the schedule's factor small and one.
    for scale, cap in ((0.1, 0.9), (1e4, 0.2), (30.0, 1.0)):
        slopes = scale * RNG.standard_normal(2 * WIDTH + 2)
        slopes[WIDTH:] = np.abs(slopes[WIDTH:])
        exposed = scale * RNG.standard_normal(3 * WIDTH)
        memory = forgetting.start("auto", WIDTH, 1.0)
        memory.own, memory.lift = RNG.standard_normal(WIDTH), RNG.random(WIDTH)
        memory.bends = memory.bends + RNG.random(WIDTH)
        numbers = np.array([memory.memory, memory.bend, cap])
        new_numbers, found = np.zeros(2), np.zeros((4, WIDTH))
        launch(
            remembering.remember_kernel(), WIDTH, 3, slopes, exposed, np.array(rules_for(cap)),
            numbers, memory.own.copy(), memory.bends.copy(), memory.lift.copy(), new_numbers,
            *found,
        )  # fmt: skip
        along = slopes[:WIDTH] + exposed.reshape(3, WIDTH).sum(axis=0)
        forgetting.learn(memory, along, slopes[WIDTH : 2 * WIDTH], float(slopes[2 * WIDTH]), cap)
        lam, lift = forgetting.factors(memory, cap)
        same(new_numbers, [memory.memory, memory.bend])
        same(found, [memory.own, memory.bends, lam, lift])


def check_parts():
    given, out = RNG.random((7, 5)), np.zeros(10)
    bounds = np.array([0, 3, 7], dtype=np.int64)
    launch(parts.add_parts_kernel(), given.reshape(-1), 5, bounds, NEVER, -1, out, grid=(1, 2))
    same(out.reshape(2, 5), np.array([given[:3].sum(axis=0), given[3:].sum(axis=0)]))


if __name__ == "__main__":
    for name, check in list(globals().items()):
        if name.startswith("check_") and name in (sys.argv[1:] or [name]):
            check()
            print(name, flush=True)

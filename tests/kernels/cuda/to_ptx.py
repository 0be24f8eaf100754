"""Compile every kernel of the card to PTX, which takes a compiler and no card; run by a test.

Numbers that a kernel holds in registers must not end in memory: a `.local` array in the PTX is
refused, for it costs more than all else the kernel does.
"""

from __future__ import annotations

import sys

import numba.cuda.dispatcher
import numpy as np
from numba import cuda, types

from onlinegcp import Loss
from onlinegcp.kernels.cuda import (
    bounded_rows,
    cell_sums,
    cells,
    draws,
    every_cell,
    fisher_cells,
    newton,
    parts,
    products,
    remembering,
    row_systems,
    rows,
    shares,
    trial,
    unit_columns,
)
from onlinegcp.kernels.cuda.formulas import formulas_of
from onlinegcp.kernels.cuda.sgd import draws as sgd_draws
from onlinegcp.kernels.cuda.sgd import history, panels, samples, slopes, sorting
from onlinegcp.kernels.cuda.sgd import rows as sgd_rows
from onlinegcp.kernels.sgd.plan import ADAGRAD, ADAM, AMSGRAD, SGD
from onlinegcp.losses import CODES, get_loss

F8, F4 = types.Array(types.float64, 1, "C"), types.Array(types.float32, 1, "C")
I8, I4 = types.Array(types.int64, 1, "C"), types.Array(types.int32, 1, "C")
U8 = types.Array(types.uint64, 1, "C")
N, B, D = types.int64, types.boolean, types.float64

LISTS = (F8, N, I8, I4, F8, I8)
ODDS = (*LISTS, N, F8, B, D, D)


def kernels(lane, modes):
    """Every kernel with the types of its arguments."""
    sharing = (*LISTS, N, F8, F4, F8, N, N, N, I8, I8, I8, I8, F8)
    past = (F8, F8, F8, F8, F8, B, N, I8)
    yield cells.sums_kernel(lane, modes), (*LISTS, N, F8, F8, I8, F8)
    yield cells.curved_kernel(lane, modes), (*LISTS, F8, I8, N, N, F8)
    yield shares.shares_kernel(lane, modes, True), sharing
    yield shares.shares_kernel(lane, modes, False), sharing
    yield shares.shares_kernel(lane, modes, True, 52), sharing
    yield newton.begin_kernel(), (N, N, N, N, F8, F8, F8, I8, F8, F8)
    judge = (N, N, F8, F8, F8, F8, I8, F8, F8, F8, F8)
    yield newton.judge_kernel(True, False), judge
    yield newton.judge_kernel(True, True), judge
    yield newton.solve_kernel(), (F8, N)
    yield cells.pick_kernel(modes), (I4, F8, I8, I4, F8)
    yield rows.column_sums_kernel(lane), (F8, N, I8, N, F8)
    yield rows.ratios_kernel(), (F8, F8, F4)
    yield rows.settle_kernel(lane), (I8, N, I8, I8, N, I8, I8, I8, F8, N, F8, F8)
    yield rows.blend_kernel(lane), (*past, N, F8, F8)
    yield rows.scale_kernel(lane), (F8, N, I8, N, F8, F8, F8)
    blending = (I8, N, I8, N, N, N, N, N, F8, F8, F8, F8, F8, B, F8, F8, F8)
    yield rows.settle_blend_kernel(lane), blending
    yield rows.unscaled_kernel(), (F8, F8, N, N, F8)
    yield rows.absorb_kernel(lane), (*past, I8, N, F8, F8, F8, F8, B, F8, F8, F8, F8, F8)
    yield rows.finish_kernel(lane), (F8, F8, B, N, I8, I8, N, F8, F8)
    yield rows.floors_kernel(), (N, N, N, F8, F8, F8, D, I8, F8)
    yield remembering.remember_kernel(), (N, N, *([F8] * 12))
    yield parts.add_parts_kernel(), (F8, N, I8, I8, N, F8)
    yield every_cell.tangent_kernel(lane, modes, True), (*ODDS, I8, F8)
    yield every_cell.grid_rates_kernel(lane, modes), (F8, N, I8, N, F8, B, D, F8)
    yield every_cell.rates_kernel(lane, modes, False), (*ODDS, N, F8, I8, I8, I8)
    yield every_cell.bound_kernel(), (F8, N, F8, F8)
    yield every_cell.along_kernel(lane), (F8, F8, N, I8, F8)
    yield draws.cumulate_kernel(), (F8, N, I8, I8, I8, F8, F8)
    yield draws.draw_kernel(), (F8, N, I8, N, N, N, U8, I8)
    yield draws.chance_kernel(lane, modes), (F8, N, I8, N, F8, F8, F8)
    yield draws.means_kernel(), (N, N, N, N, N, N, F8, F8, F8)
    yield draws.row_chances_kernel(lane, modes), (F8, N, I8, I8, N, N, F8, F8, N, D, F8)
    yield draws.scatter_kernel(), (I8, N, N, N, N, N, F8, I8, I8)
    yield draws.lend_kernel(), (N, N, N, N, N, N, F8, F8, F8, D, D, I8, I8, F8)
    yield draws.collect_kernel(), (N, N, D, F8, F8, F8)

    yield products.products_kernel(lane, modes, True), (*LISTS, N, N, F8, I8, I8, I8)
    yield products.products_kernel(lane, modes, False), (*LISTS, N, N, F8, I8, I8, I8)
    yield products.gram_kernel(), (F8, F8, N, I8, N, N, F8)
    yield products.rows_kernel(lane), (*([F8] * 7), B, N, I8, N, F8, F8)
    yield products.project_kernel(lane), (F8, F8, N, I8, I8, F8, F8, F8)
    yield products.shrink_kernel(lane), (F8, N, N, I8, I8, F8)

    bounds = (*([F8] * 9), B, N, N, D, N, N, N, N, F8, F8, F8, F8)
    for inside in (True, False):
        yield bounded_rows.bounded_rows_kernel(lane, inside), bounds
    yield bounded_rows.restore_kernel(lane), (F8, F8, F8, N, I8, I8, F8, F8)

    logit = CODES["bernoulli_logit"]
    weighted = (I8, I4, F8, F8)
    passes = (N, *weighted, I8, F8, N, F8, D, F8)
    pieces = (F8, N, *weighted, F8, I4, I8, I8, N, F8, D, N, N, F8)
    yield fisher_cells.tally_kernel(lane, modes, logit), (F8, *passes)
    yield fisher_cells.change_kernel(lane, modes, logit), (F8, F8, *passes)
    move = (F8, N, N, *weighted, F8, I4, I8, I8, N, F8, D, *([F8] * 6), B, B, F8)
    store = (F8, N, N, N, I8, *([F8] * 7), B, B, *([F8] * 5))
    for full in (True, False):
        yield fisher_cells.pieces_kernel(lane, modes, full, logit), pieces
        yield row_systems.move_kernel(lane, modes, full, full, logit), move
        yield row_systems.store_kernel(full, full), store
        units = (F8, F8, F8, B, N, I8, I8, F8, F8, F8, F8, F8, F8)
        yield unit_columns.unit_kernel(lane, full), units
    yield row_systems.move_kernel(lane, modes, True, False, logit), move
    yield unit_columns.holds_kernel(), (F8, F8, N, N, N, I8, F8)
    yield unit_columns.straighten_kernel(lane), (F8, N, N, I8, I8, F8, F8)
    for name in CODES:
        yield formulas_of(get_loss(name)).bound_to(trial.formulas_kernel), (D, F8, F8, F8)
    own = formulas_of(Loss(
        "own", value=lambda x, m: np.log(np.cosh(m - x)), deriv=lambda x, m: np.tanh(m - x)
    ))  # fmt: skip
    yield own.bound_to(trial.formulas_kernel), (D, F8, F8, F8)
    yield own.bound_to(fisher_cells.pieces_kernel, lane, modes, True), pieces
    yield sgd_draws.draw_kernel(modes), (
        I8, U8, I8, U8, F8, I8, I8, I8, I4, F8, I8, U8, F8, N, N, N, I4, F8, F8
    )  # fmt: skip
    yield sgd_draws.advance_kernel(), (N, I8)
    yield sgd_draws.list_kernel(modes), (I4, N, I8, N, N, I8, U8)
    lists = (I8, I4, I8, N, N, N, I4)
    yield sorting.counts_kernel(), (*lists, N, N, N, I4)
    yield sorting.places_kernel(), (N, N, N, I4)
    yield sorting.sort_kernel(), (*lists, N, N, N, I4, I4)
    for weighted in (True, False):
        yield sorting.bounds_kernel(modes, weighted), (
            I8, I4, I8, N, N, I4, F8, F8, I4, I4, F8, F8
        )  # fmt: skip
    for code in (CODES["poisson"], CODES["bernoulli_odds"]):
        sampled = (F8, N, F8, I8, D, N, N, I4, F8, F8, F8)
        yield slopes.weights_kernel(4 * lane, modes, code), sampled
        yield slopes.objective_kernel(4 * lane, modes, code), (*sampled[:6], I4, F8, F8, F8)
    yield history.grams_kernel(56, 32), (F8, F8, I8, F8)
    yield history.fold_kernel(modes), (N, I8, *([F8] * 4))
    yield history.fold_rows_kernel(modes), (N, I8, *([F8] * 5))
    yield history.norms_kernel(), (F8, F8, N, I8, F8)
    sums = (D, N, N, I4, I4, F8, F8, I4)
    stepping = (*([F8] * 5), N, F8, F8, F8, F8)
    for pieces in (7, 32):
        yield samples.gather_kernel(pieces, modes, 1), (
            F8, N, I8, F8, I8, *sums, I8, I8, I8, F8
        )  # fmt: skip
    for kind, folds in ((SGD, False), (ADAM, True), (ADAGRAD, False), (AMSGRAD, True)):
        yield sgd_rows.tiles_kernel(modes, kind, folds), (
            F8, N, I8, I8, N, I8, I8, I8, F8, *stepping
        )  # fmt: skip
        panel = (F8, I8, F8, I8, *sums[:3], N, *sums[3:], I8, *stepping)
        yield panels.panels_kernel(56, modes, kind, 1, folds), panel
        yield sgd_rows.weigh_kernel(kind), (N, N, N, F8, I8, N, *([F8] * 7))
    yield panels.panels_kernel(128, modes, AMSGRAD, 1, True), panel
    yield sgd_rows.copy_kernel(), (F8, F8, N)
    yield cell_sums.rows_kernel(modes), (I4, N, I8, I4)
    yield cell_sums.gather_kernel(lane, modes), (F8, N, I8, N, N, I4, I4, F8, N, F8)
    for logs in (True, False):
        yield cell_sums.quotients_kernel(4 * lane, modes, logs), (
            F8, N, N, F8, I4, I4, N, D, F8, F8
        )  # fmt: skip
    yield cell_sums.add_row_parts_kernel(), (F8, N, N, N, F8)


# Kernels that are never part of such a recording.
ALONE = tuple(f"onlinegcp.kernels.cuda.{name}" for name in ("sgd.", "trial", "cell_sums"))


class NoCard:
    """What stands for a card while functions that kernels call are compiled."""

    compute_capability = (9, 0)


if __name__ == "__main__":
    numba.cuda.dispatcher.get_current_device = lambda: NoCard
    only = sys.argv[1:]
    for number, (kernel, signature) in enumerate(kernels(2, 3)):
        if only and kernel.py_func.__name__ not in only:
            continue
        ptx, _ = cuda.compile_ptx(kernel.py_func, signature, cc=NoCard.compute_capability)
        name = f"{kernel.py_func.__name__}-{number}"
        assert ".entry" in ptx or ".func" in ptx, name
        assert "__local_depot" not in ptx, f"{name} keeps numbers in memory instead of registers"
        # Recordings of the default solver let kernels take their places early.
        waits = "griddepcontrol.wait" in ptx or kernel.py_func.__module__.startswith(ALONE)
        assert waits, f"{name} must call `after_others` first"
        print(name, flush=True)

"""Compile every kernel of the card to PTX, which takes a compiler and no card; run by a test.

Numbers that a kernel holds in registers must not end in memory: a `.local` array in the PTX is
refused, for it costs more than all else the kernel does.
"""

from __future__ import annotations

import numba.cuda.dispatcher
from numba import cuda, types

from onlinegcp.kernels.cuda import cells, draws, every_cell, newton, parts, rows, shares

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
    yield cells.sums_kernel(lane, modes), (*LISTS, N, F8, I8, F8)
    yield cells.curved_kernel(lane, modes), (*LISTS, F8, I8, N, N, F8)
    yield shares.shares_kernel(lane, modes, True), sharing
    yield shares.shares_kernel(lane, modes, False), sharing
    yield newton.begin_kernel(), (N, N, N, N, F8, F8, F8, I8, F8, F8)
    yield newton.judge_kernel(True), (N, N, F8, F8, I8, F8, F8, F8, F8)
    yield newton.solve_kernel(), (F8, N)
    yield rows.column_sums_kernel(lane), (F8, N, I8, N, F8)
    yield rows.ratios_kernel(), (F8, F8, F4)
    yield rows.settle_kernel(lane), (I8, N, I8, I8, N, I8, I8, I8, F8, N, F8, F8)
    yield rows.blend_kernel(lane), (*past, N, F8, F8)
    yield rows.scale_kernel(lane), (F8, N, I8, I8, N, F8)
    yield rows.unscaled_kernel(), (F8, F8, N, N, F8)
    yield rows.absorb_kernel(lane), (*past, I8, N, F8, F8, F8, F8, B, F8, F8, F8, F8, F8)
    yield rows.finish_kernel(lane), (F8, F8, B, N, I8, I8, N, F8, F8)
    yield rows.floors_kernel(), (N, N, N, F8, F8, F8, D, I8, F8)
    yield parts.add_parts_kernel(), (F8, N, I8, I8, N, F8)
    yield every_cell.tangent_kernel(lane, modes, True), (*ODDS, F8)
    yield every_cell.rates_kernel(lane, modes, False), (*ODDS, N, F8, I8, I8, I8)
    yield every_cell.bound_kernel(), (F8, N, F8, F8)
    yield every_cell.moved_kernel(), (F8, N, F8, F8)
    yield every_cell.along_kernel(lane), (F8, F8, N, I8, F8)
    yield draws.cumulate_kernel(), (F8, N, I8, I8, I8, F8, F8)
    yield draws.draw_kernel(), (F8, N, I8, N, N, N, U8, I8)
    yield draws.chance_kernel(lane, modes), (F8, N, I8, N, F8, F8, F8)
    yield draws.means_kernel(), (N, N, N, N, N, N, F8, F8, F8)
    yield draws.row_chances_kernel(lane, modes), (F8, N, I8, I8, N, N, F8, F8, N, D, F8)
    yield draws.scatter_kernel(), (I8, N, N, N, N, N, F8, I8, I8)
    yield draws.lend_kernel(), (N, N, N, N, N, N, F8, F8, F8, D, D, I8, I8, F8)
    yield draws.collect_kernel(), (N, N, D, F8, F8, F8)


class NoCard:
    """What stands for a card while functions that kernels call are compiled."""

    compute_capability = (9, 0)


if __name__ == "__main__":
    numba.cuda.dispatcher.get_current_device = lambda: NoCard
    for number, (kernel, signature) in enumerate(kernels(2, 3)):
        ptx, _ = cuda.compile_ptx(kernel.py_func, signature, cc=NoCard.compute_capability)
        name = f"{kernel.py_func.__name__}-{number}"
        assert ".entry" in ptx or ".func" in ptx, name
        assert "__local_depot" not in ptx, f"{name} keeps numbers in memory instead of registers"
        print(name, flush=True)

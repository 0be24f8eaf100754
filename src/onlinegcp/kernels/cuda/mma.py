"""Products of small matrices by a whole warp, for which cards from 2020 on have units of their own.

A warp multiplies 8 x 4 by 4 x 8 numbers and adds the product to 8 x 8 others. Lane l brings the
number in row l // 4 and column l % 4 of the left matrix and the one in row l % 4 and column l // 4
of the right one, and holds two neighbours of the sum, in row l // 4 from column 2 (l % 4) on. So a
matrix whose transpose comes on the left and itself on the right is read from the same places. Sums
are added in one order, and bits repeat.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,attr-defined,misc"

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from onlinegcp.kernels.cuda.lanes import EVERY_LANE, SIMULATED, device

EDGE, DEEP = 8, 4  # rows and columns of the sum, and how many products each number of it gets
SQUARE = 2 * EDGE  # rows and columns that a warp adds up at once: four such sums
PER_SQUARE = 8  # numbers of a square that a lane holds
U = np.uint64


def aside(width: int) -> int:
    """How far apart rows of so many numbers lie in shared memory, so that banks do not clash."""
    return width if width % EDGE == DEEP else width + DEEP


if SIMULATED:
    import threading

    from onlinegcp.kernels.cuda.lanes import LANES, _exchange

    def multiply(left, right, c, d):
        """Add a product to the sum of which this lane holds c and d."""
        lane, held = threading.current_thread().threadIdx.x % LANES, _exchange((left, right))
        for k in range(DEEP):
            a = held[lane // DEEP * DEEP + k][0]
            c += a * held[2 * (lane % DEEP) * DEEP + k][1]
            d += a * held[(2 * (lane % DEEP) + 1) * DEEP + k][1]
        return c, d

else:

    def _has_units() -> bool:
        try:
            return bool(cuda.get_current_device().compute_capability >= (8, 0))
        except Exception:  # no card: kernels are compiled to be looked at
            return True

    if _has_units():
        from llvmlite import ir
        from numba import types
        from numba.cuda.extending import intrinsic

        @intrinsic
        def _instruction(_context, left, right, c, d):
            given = types.UniTuple(types.float64, 2)

            def code(context, builder, _signature, arguments) -> Any:
                number = ir.DoubleType()
                kind = ir.FunctionType(ir.LiteralStructType([number, number]), [number] * 4)
                text = "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {$0,$1},{$2},{$3},{$4,$5};"
                # With side effects: it may not move to where lanes have parted.
                asm = ir.InlineAsm(kind, text, "=d,=d,d,d,d,d", side_effect=True)
                found = builder.call(asm, arguments)
                pair = [builder.extract_value(found, q) for q in range(2)]
                return context.make_tuple(builder, given, pair)

            return given(left, right, c, d), code

        @device
        def multiply(left, right, c, d):
            """Add a product to the sum of which this lane holds c and d."""
            return _instruction(left, right, c, d)  # type: ignore[call-arg]

    else:

        @device
        def multiply(left, right, c, d):
            """Add a product to the sum of which this lane holds c and d."""
            lane = cuda.laneid
            row, column = lane // DEEP * DEEP, 2 * (lane % DEEP) * DEEP
            for k in range(DEEP):
                a = cuda.shfl_sync(EVERY_LANE, left, row + k)
                c += a * cuda.shfl_sync(EVERY_LANE, right, column + k)
                d += a * cuda.shfl_sync(EVERY_LANE, right, column + DEEP + k)
            return c, d


@device
def add_square(held, left, right, a, b, c, d, e, f, g, h):
    """Add outer products of DEEP rows of two matrices to a square, of which a, ..., h are ours.

    The rows lie in `held`; `left` and `right` are the lane's places in them, in row lane % DEEP and
    lane // DEEP columns from where the square begins.
    """
    upper, lower = held[U(left)], held[U(left + EDGE)]
    first, second = held[U(right)], held[U(right + EDGE)]
    a, b = multiply(upper, first, a, b)
    c, d = multiply(upper, second, c, d)
    e, f = multiply(lower, first, e, f)
    g, h = multiply(lower, second, g, h)
    return a, b, c, d, e, f, g, h


@device
def square_row(q, lane):
    """The row in its square of a lane's q-th number."""
    return q // 4 * EDGE + lane // DEEP


@device
def square_column(q, lane):
    """The column in its square of a lane's q-th number."""
    return q // 2 % 2 * EDGE + 2 * (lane % DEEP) + q % 2


@device
def triangle_row(number):
    """The row of the so many-th square of a lower triangle, which is numbered row by row."""
    row = 0
    while (row + 1) * (row + 2) // 2 <= number:
        row += 1
    return row

"""Products of small matrices of which the left one is twice as tall as those of `mma`.

Newer cards (from 2022 on) multiply 16 x 4 by 4 x 8 numbers in the time that 8 x 4 take. Lane l
brings the numbers in rows l // 4 and l // 4 + 8 and column l % 4 of the left matrix, the one in row
l % 4 and column l // 4 of the right one, and holds columns 2 (l % 4) and the next of both rows of
the sum. Rows of the left matrix are columns of a factor, here: those of one lane are neighbours in
memory, so that a request brings two of them (`pairs`).
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,attr-defined,misc"

from __future__ import annotations

from typing import Any

from numba import cuda

from onlinegcp.kernels.cuda.lanes import SIMULATED, device
from onlinegcp.kernels.cuda.mma import DEEP, EDGE, multiply

TALL = 2 * EDGE  # rows of the left matrix


def groups_of(width: int) -> int:
    """Groups of TALL columns."""
    return -(-width // TALL)


def matrix_size(width: int) -> int:
    """Places of a matrix that rows are to be multiplied by; those beyond its edges stay zero."""
    return (width + EDGE - 1) // EDGE * EDGE * ((width + TALL - 1) // TALL) * TALL


matrix_numbers = device(matrix_size)


def _new_card() -> bool:
    try:
        return bool(cuda.get_current_device().compute_capability >= (9, 0))
    except Exception:  # no card: kernels are compiled to be looked at
        return True


if not SIMULATED and _new_card():
    from llvmlite import ir
    from numba import types
    from numba.cuda.extending import intrinsic

    @intrinsic
    def _instruction(_context, upper, lower, right, a, b, c, d):
        given = types.UniTuple(types.float64, 4)

        def code(context, builder, _signature, arguments) -> Any:
            number = ir.DoubleType()
            kind = ir.FunctionType(ir.LiteralStructType([number] * 4), [number] * 7)
            text = (
                "mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 "
                "{$0,$1,$2,$3},{$4,$5},{$6},{$7,$8,$9,$10};"
            )
            # With side effects: it may not move to where lanes have parted.
            asm = ir.InlineAsm(kind, text, "=d,=d,=d,=d,d,d,d,d,d,d,d", side_effect=True)
            found = builder.call(asm, arguments)
            four = [builder.extract_value(found, q) for q in range(4)]
            return context.make_tuple(builder, given, four)

        return given(*[types.float64] * 7), code

    @device
    def multiply_tall(upper, lower, right, a, b, c, d):
        """Add a product to the sum of which this lane holds a, b and, EDGE rows below, c, d."""
        return _instruction(upper, lower, right, a, b, c, d)  # type: ignore[call-arg]

else:

    @device
    def multiply_tall(upper, lower, right, a, b, c, d):
        """Add a product to the sum of which this lane holds a, b and, EDGE rows below, c, d."""
        a, b = multiply(upper, right, a, b)
        c, d = multiply(lower, right, c, d)
        return a, b, c, d


@device
def place_of(row, column, groups):
    """Where a number of a matrix lies that rows are to be multiplied by: lanes find theirs there.

    Rows come in pairs, too: of EDGE of them the even ones are one product's, the odd ones the
    next's. In a product groups of TALL columns follow each other, in a group the lanes' pairs.
    """
    four = 2 * (row // EDGE) + row % 2
    lane = column % TALL // 2 * DEEP + row % EDGE // 2
    return ((four * groups + column // TALL) * 32 + lane) * 2 + column % 2

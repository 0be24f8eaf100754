"""Threads that wait for each other inside compiled code.

Python's own barriers take longer than a phase of an iteration. Whoever waits looks a few thousand
times, then gives its processor away, then sleeps: a machine with other work is not held up. What
is called for that are functions of the C library of Unix systems.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator,no-any-return"

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numba.core import types
from numba.extending import intrinsic as _typed_intrinsic
from numpy.typing import NDArray

from onlinegcp.kernels.jit import kernel
from onlinegcp.kernels.simd import element_address

intrinsic: Any = _typed_intrinsic

AVAILABLE = os.name == "posix"
_yield: Any = types.ExternalFunction("sched_yield", types.int32())
_sleep: Any = types.ExternalFunction("usleep", types.int32(types.uint32))

LOOKS = 2000  # a few microseconds
YIELDS = 200  # then others may run in between; after these it naps
NAP = np.uint32(50)  # microseconds

# Places of the numbers in a room, each on a cache line of its own.
ARRIVED, ROUND = 0, 16


def new_room() -> NDArray[np.int64]:
    """What threads need to wait for each other."""
    return np.zeros(32, dtype=np.int64)


@intrinsic
def _count(typingctx, array, position):
    """Add one to an element, at once; what it was before."""

    def codegen(context, builder, signature, args):
        at = element_address(context, builder, signature.args[0], args[0], args[1])
        return builder.atomic_rmw("add", at, context.get_constant(types.int64, 1), "seq_cst")

    return types.int64(array, types.int64), codegen


@intrinsic
def _set(typingctx, array, position, value):
    def codegen(context, builder, signature, args):
        at = element_address(context, builder, signature.args[0], args[0], args[1])
        builder.store_atomic(args[2], at, "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64), codegen


@intrinsic
def _look(typingctx, array, position):
    def codegen(context, builder, signature, args):
        at = element_address(context, builder, signature.args[0], args[0], args[1])
        return builder.load_atomic(at, "seq_cst", 8)

    return types.int64(array, types.int64), codegen


@kernel
def wait_for_all(room, crew):
    """Return when all of `crew` threads have come here."""
    turn = _look(room, ROUND)
    if _count(room, ARRIVED) == crew - 1:
        _set(room, ARRIVED, 0)
        _count(room, ROUND)
        return
    looks = 0
    while _look(room, ROUND) == turn:
        looks += 1
        if looks > LOOKS + YIELDS:
            _sleep(NAP)
        elif looks > LOOKS:
            _yield()

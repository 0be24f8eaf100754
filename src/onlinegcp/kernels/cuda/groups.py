"""What a few lanes of a warp do together: sums over groups of eight, and who holds the same number.

The same on the card and in Numba's simulator, as in `lanes`.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,attr-defined,misc"

from __future__ import annotations

import threading

from numba import cuda

from onlinegcp.kernels.cuda.lanes import EVERY_LANE, GROUP, LANES, SIMULATED, device

if SIMULATED:
    from onlinegcp.kernels.cuda.lanes import _exchange

    def _me():
        return threading.current_thread().threadIdx.x % LANES

    def group_sum(value):
        """The sum of a number over the eight lanes of a group, known to each."""
        first = _me() // GROUP * GROUP
        held = _exchange(value)[first : first + GROUP]
        while len(held) > 1:
            half = len(held) // 2
            held = [held[i] + held[i + half] for i in range(half)]
        return held[0]

    def across_groups(value):
        """The sum over the four groups of a warp of what lanes at the same place hold."""
        place, held = _me() % GROUP, _exchange(value)
        a, b, c, d = (held[place + GROUP * g] for g in range(LANES // GROUP))
        return (a + c) + (b + d)

    def place_sum(value):
        """The sum over the lanes that have the same place in their four, known to each."""
        held = _exchange(value)[_me() % 4 :: 4]
        while len(held) > 1:
            half = len(held) // 2
            held = [held[i] + held[i + half] for i in range(half)]
        return held[0]

    def peers(value):
        """One bit per lane of the warp that holds the same number."""
        held = _exchange(value)
        return sum(1 << lane for lane in range(LANES) if held[lane] == held[_me()])

    def warp_barrier():
        """Until all lanes of the warp are here and see what others wrote."""
        threading.current_thread().syncthreads()

else:

    @device
    def group_sum(value):
        """The sum of a number over the eight lanes of a group, known to each."""
        value += cuda.shfl_xor_sync(EVERY_LANE, value, 4)
        value += cuda.shfl_xor_sync(EVERY_LANE, value, 2)
        value += cuda.shfl_xor_sync(EVERY_LANE, value, 1)
        return value

    @device
    def across_groups(value):
        """The sum over the four groups of a warp of what lanes at the same place hold."""
        value += cuda.shfl_xor_sync(EVERY_LANE, value, 16)
        value += cuda.shfl_xor_sync(EVERY_LANE, value, 8)
        return value

    @device
    def place_sum(value):
        """The sum over the lanes that have the same place in their four, known to each."""
        value += cuda.shfl_xor_sync(EVERY_LANE, value, 16)
        value += cuda.shfl_xor_sync(EVERY_LANE, value, 8)
        value += cuda.shfl_xor_sync(EVERY_LANE, value, 4)
        return value

    @device
    def peers(value):
        """One bit per lane of the warp that holds the same number."""
        return cuda.match_any_sync(EVERY_LANE, value)

    @device
    def warp_barrier():
        """Until all lanes of the warp are here and see what others wrote."""
        cuda.syncwarp(EVERY_LANE)

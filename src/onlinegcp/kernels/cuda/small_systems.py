"""One system of some dozens of unknowns, as fast as a single block can solve it.

Nothing but the solution is waited for, so that latency is all that counts: the matrix lies in the
registers of the block, a warp has every so many-th row and its lanes the columns. Two pivots are
taken between two barriers, and rows above them are cleared with those below: no second walk back.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,attr-defined"

from __future__ import annotations

from functools import cache
from typing import Any

from numba import cuda, float64

from onlinegcp.kernels.cuda.cells import U
from onlinegcp.kernels.cuda.lanes import LANES, device, from_lane, kernel, over


def cut(n: int, threads: int) -> tuple[int, int]:
    """Rows of a warp and columns of a lane for n unknowns, the right-hand side among them."""
    even = n + n % 2
    return -(-even // (threads // LANES)), -(-(even + 1) // LANES)


def room(n: int) -> int:
    """Numbers of shared memory for n unknowns: the system, or four rows and two vectors."""
    return max((n + 1) ** 2, 4 * LANES * cut(n, LANES)[1] + 2 * (n + 1))


@cache
def solver(tall: int, wide: int) -> Any:
    """Solves as `newton.solve_held` does, with the same arguments; for the `cut` of n."""
    numbers, span = tall * wide, wide * LANES

    @device
    def solve(held, n, me, threads):
        lane, warp, warps = me % LANES, me // LANES, threads // LANES
        edge, even = n + 1, n + (n & 1)
        mine = cuda.local.array(numbers, float64)
        least = cuda.local.array(tall, float64)  # a pivot
        p = cuda.local.array(wide, float64)
        q = cuda.local.array(wide, float64)
        for i in range(tall):
            row = warp + warps * i
            least[i] = held[U(row * edge + n)] if row < n else 0.0
            for j in range(wide):
                column = lane + LANES * j
                # An odd number of unknowns gets one more, which is alone with itself.
                number = 1.0 if row == column else 0.0
                if row < n:
                    if column < n:
                        number = held[U(max(row, column) * edge + min(row, column))]
                    else:
                        number = held[U(n * edge + row)] if column == even else 0.0
                mine[i * wide + j] = number
        cuda.syncthreads()
        smallest, inverse = 4 * span, 4 * span + even
        for i in range(tall):
            row = warp + warps * i
            if lane == 0 and row < even:
                held[U(smallest + row)] = least[i]
        k, at = 0, 0
        while k < even:
            for i in range(tall):
                row = warp + warps * i
                if row == k or row == k + 1:
                    to = at + (row - k) * span
                    for j in range(wide):
                        held[U(to + lane + LANES * j)] = mine[i * wide + j]
            cuda.syncthreads()
            beside, below = held[U(at + k + 1)], held[U(at + span + k)]
            # Rounding may leave a nearly singular pivot below zero. The second is their product
            # over the first, so that neither waits for the other's inverse.
            pivot = max(held[U(at + k)], held[U(smallest + k)])
            both = pivot * held[U(at + span + k + 1)] - below * beside
            first = over(pivot)
            second = pivot * over(max(both, pivot * held[U(smallest + k + 1)]))
            ratio = below * first
            for j in range(wide):
                p[j] = held[U(at + lane + LANES * j)]
                q[j] = held[U(at + span + lane + LANES * j)] - ratio * p[j]
            for i in range(tall):
                row = warp + warps * i
                whose = mine[i * wide]
                for j in range(1, wide):  # a place found at run time would lie in memory
                    whose = mine[i * wide + j] if k >= LANES * j else whose
                x = from_lane(whose, k % LANES) * first
                y = from_lane(whose, k % LANES + 1)
                x = 0.0 if row == k else x
                y = 0.0 if row == k + 1 else (y - x * beside) * second
                for j in range(wide):
                    mine[i * wide + j] -= x * p[j] + y * q[j]
            if me < 2:
                held[U(inverse + k + me)] = second if me == 1 else first
            k += 2
            at = 2 * span - at
        cuda.syncthreads()
        for i in range(tall):
            row = warp + warps * i
            for j in range(wide):
                if lane + LANES * j == even and row < n:
                    mine[i * wide + j] *= held[U(inverse + row)]
        cuda.syncthreads()  # what is found lies where the inverses do
        for i in range(tall):
            row = warp + warps * i
            for j in range(wide):
                if lane + LANES * j == even and row < n:
                    held[U(n * edge + row)] = mine[i * wide + j]
        cuda.syncthreads()

    return solve


@cache
def solve_kernel(tall: int, wide: int) -> Any:
    """`solver` by itself."""
    solve_held = solver(tall, wide)

    @kernel
    def solve(held, n):
        solve_held(held, n, cuda.threadIdx.x, cuda.blockDim.x)

    return solve

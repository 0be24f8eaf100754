"""Random numbers without state: every draw is a hash of what it is for.

A draw is identified by (seed, slice number, purpose, iteration, sample, draw). The first four are
hashed to one 64-bit key; sample and draw form a counter behind it (splitmix64). Nothing has to be
carried from call to call, so results cannot depend on the order of evaluation or on threads.

`mix64` and `word` use only NumPy arithmetic on unsigned 64-bit integers: the same text is array
code in NumPy and scalar code when Numba compiles it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# What a stream of draws is for, all of them; streams of different purpose are independent.
# The paper's solver:
GRADIENT_WEIGHTS = 1
GRADIENT_FACTORS = 2
OBJECTIVE_WEIGHTS = 3
OBJECTIVE_FACTORS = 4
RESERVOIR = 6
# The default solver: unlisted zeros by component, and one by one; what a trial looks at and starts
# from (zeros for a birth or a split, its columns, the cells in which a misfit is looked for).
COMPONENT_ZEROS = 11
LISTED_ZEROS = 12
TRIAL_COLUMNS = 13
TRIAL_CELLS = 14
TRIAL_ZEROS = 15
# Which cells of a slice are held out while weights are solved.
HELD_OUT = 16
# Other streaming methods: the cells from which weights are solved.
WEIGHT_SUBSET = 20
# All methods: the cells that stand for the zeros of a slice too large to be scored whole.
SCORED_ZEROS = 30

# Sample numbers stay below 2^40 and draw numbers below 2^24, so counters never collide.
DRAW_SHIFT = np.uint64(40)

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLY_1 = np.uint64(0xBF58476D1CE4E5B9)
_MULTIPLY_2 = np.uint64(0x94D049BB133111EB)
_SHIFT_1 = np.uint64(30)
_SHIFT_2 = np.uint64(27)
_SHIFT_3 = np.uint64(31)
_SHIFT_UNIT = np.uint64(11)
_HALF = np.uint64(32)
_LOW_HALF = np.uint64(0xFFFFFFFF)
_ONE = np.uint64(1)
_UNIT = 2.0**-53

_MASK = (1 << 64) - 1


def stream_key(seed: int, slice_number: int, purpose: int) -> int:
    """Key of one stream of draws.

    Parameters
    ----------
    seed, slice_number, purpose
        Any Python integers; they are taken modulo 2^64.

    Examples
    --------
    >>> stream_key(0, 0, GRADIENT_FACTORS) == stream_key(0, 1, GRADIENT_FACTORS)
    False
    """
    key = 0
    for part in (seed, slice_number, purpose):
        key = _mix_int((key ^ (int(part) & _MASK)) + int(GOLDEN))
    return key


def iteration_key_int(key: int, iteration: int) -> int:
    """Key of one iteration of a stream."""
    return _mix_int(key + int(GOLDEN) * (iteration + 1))


def word(key: Any, sample: Any, draw: Any) -> Any:
    """64 random bits for one draw of one sample (all arguments uint64)."""
    return mix64(key + GOLDEN * (sample + (draw << DRAW_SHIFT)))


def mix64(state: Any) -> Any:
    """Scramble 64 bits so that neighbouring inputs give unrelated outputs (splitmix64)."""
    state = (state ^ (state >> _SHIFT_1)) * _MULTIPLY_1
    state = (state ^ (state >> _SHIFT_2)) * _MULTIPLY_2
    return state ^ (state >> _SHIFT_3)


def unit(bits: Any) -> Any:
    """Number in [0, 1) with 53 random bits."""
    return (bits >> _SHIFT_UNIT) * _UNIT


def multiply_high(a: Any, b: Any) -> Any:
    """Upper 64 bits of the 128-bit product: maps random bits to 0 .. b - 1.

    Modulo would be biased and slow, and 32-bit bits are 1e-3 off uniform at 5 million cells.
    """
    a_low, a_high = a & _LOW_HALF, a >> _HALF
    b_low, b_high = b & _LOW_HALF, b >> _HALF
    middle = a_high * b_low + ((a_low * b_low) >> _HALF)
    other = a_low * b_high + (middle & _LOW_HALF)
    return a_high * b_high + (middle >> _HALF) + (other >> _HALF)


def uniform(key: int, count: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The first `count` numbers in [0, 1) of a stream.

    Examples
    --------
    >>> uniform(stream_key(0, 0, RESERVOIR), 2).shape
    (2,)
    """
    samples = np.arange(count, dtype=np.uint64)
    bits = word(np.uint64(key), samples, np.uint64(0))
    return np.asarray(unit(bits), dtype=np.float64)


def _mix_int(state: int) -> int:
    """`mix64` for Python integers, which never overflow and so never warn."""
    state &= _MASK
    state = ((state ^ (state >> 30)) * int(_MULTIPLY_1)) & _MASK
    state = ((state ^ (state >> 27)) * int(_MULTIPLY_2)) & _MASK
    return state ^ (state >> 31)

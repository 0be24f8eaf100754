"""Times that vary more than others: the nights of a city, the weekends of a timetable.

Of every time, such as an hour of the week, `known` holds (3, times) the number, sum and squares of
how far the slices of that time were off, in units of what is usual.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

import math

from onlinegcp.kernels.jit import kernel

NUMBER, WHOLE, SQUARES = range(3)
KEEP = 1.0 - 1.0 / 12.0  # of what is known of a time, when it comes again
MOST = 2.0  # times what its time is known for that one slice tells: holidays come again
CALMEST, WILDEST = 0.25, 16.0


@kernel(inline="always")
def unrest_at(known, time):
    # How many times as far as usual slices are off at this time: its own average, and that of all
    # times the more, the less times differ beyond what slices of one time do.
    times = known.shape[1]
    number, found, whole, squares, chances = 0.0, 0.0, 0.0, 0.0, 0.0
    within, spare = 0.0, 0.0
    for p in range(times):
        n = known[NUMBER, p]
        if n > 0.0:
            mean = known[WHOLE, p] / n
            number += n
            found += 1.0
            whole += mean
            squares += mean * mean
            chances += 1.0 / n
            within += max(known[SQUARES, p] - n * mean * mean, 0.0)
            spare += max(n - 1.0, 0.0)
    if found < 2.0 or spare < 2.0:
        return 1.0
    within /= spare
    # Few times differ by chance, and few slices do not tell how much: two of its deviations.
    doubt = 1.0 + 2.0 * math.sqrt(2.0 / (found - 1.0) + 2.0 / spare)
    real = (squares - whole * whole / found) / (found - 1.0) - doubt * within * chances / found
    if real <= 0.0:
        return 1.0
    usual, prior = whole / found, within / real
    told = (known[WHOLE, time] + prior * usual) / (known[NUMBER, time] + prior)
    return min(max(told / max(usual, 1e-12), CALMEST), WILDEST)


@kernel(inline="always")
def learn_time(known, time, off, now):
    # One slice may not make its time restless: a holiday would hide the next one.
    off = min(off, MOST * now)
    known[NUMBER, time] = KEEP * known[NUMBER, time] + 1.0
    known[WHOLE, time] = KEEP * known[WHOLE, time] + off
    known[SQUARES, time] = KEEP * known[SQUARES, time] + off * off

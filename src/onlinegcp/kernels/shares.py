"""Compiled passes over rows of counts: their shares, how they compare, and what is learned.

`rows` is (`FIELDS`, n): events and exposure that make a row's share; squares, noise and sizes that
make its spread; slices in a row that it was odd; and its habits, which pairs do not have: how far
it was off last time with what tells whether that stays. `season` and `special` are (2, n) events
and exposure of the phase and of the kind of day, or (2, 0) for none. `anomaly.shares` says what
for.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"

from __future__ import annotations

import math

import numpy as np

from onlinegcp.kernels.jit import kernel
from onlinegcp.kernels.unrest import learn_time, unrest_at

EVENTS, EXPOSURE, SQUARES, NOISE, SIZES, STREAK, LATELY, PRODUCT, POWER = range(9)
FIELDS, FIELDS_OF_PAIRS = 9, 6
FORECAST, DEVIATION, SURPRISE = range(3)

PRIOR = 5.0  # slices for which the spread of all rows counts in that of one
SHRINK = 3.0  # events that a season or a special day is held back by, more for noisy rows
HALF = 0.5  # event: what a row without any is given
LOWEST_FACTOR = 0.02  # of under-dispersion, so that no row becomes a constant
ODD = 4.0  # standard deviations from which a row is held
LEAST_OTHERS = 0.3  # part of everything that rows which are as usual must hold to tell the total
HEAVIEST = 0.25  # part of everything from which rows are missed where others tell the total
PATIENCE = 3.0  # slices for which it is
FAMILIAR = 0.7  # of a season so far that is kept, once it came twice: before, weekends stay odd
SPECIAL_KEEP = 5.0 / 6.0  # of the special days so far, when another one is learned

ROW_MOST = 9.0  # squared standard deviations that one row counts for in the unrest of a time
LEAST_LEARNED = 1.0  # rows of learned spread below which a slice tells nothing of unrest

LASTING_KEEP = 1.0 - 1.0 / 200.0  # of what tells whether a row stays off, per slice
LASTING_PRIOR = 20.0  # slices of mere noise that speak against it
LASTING_LEAST = 5.0  # events below which noise is all that is seen
LONGEST_LASTING = 0.95  # share of what a row stayed off by that the next slice is expected to have


@kernel(inline="always")
def _phase_factor(rows, part, i):
    held = SHRINK * (1.0 + (rows[SQUARES, i] + 1.0) / (rows[NOISE, i] + 1.0))
    return (part[0, i] + held) / (part[1, i] + held)


@kernel(inline="always")
def _lasting_factor(rows, i):
    # What is left of how far the row was off last time: hours of a busy day follow each other.
    if rows.shape[0] <= LATELY or rows[LATELY, i] == 0.0:
        return 1.0
    part = rows[PRODUCT, i] / (rows[POWER, i] + LASTING_PRIOR)
    return math.exp(min(max(part, 0.0), LONGEST_LASTING) * rows[LATELY, i])


@kernel
def row_shares(rows, season, special, newcomer, share):
    # share[i] of the slice's total; rows beyond those of `rows` are new.
    for i in range(share.shape[0]):
        if i >= rows.shape[1]:
            share[i] = newcomer
            continue
        found = (rows[EVENTS, i] + HALF) / max(rows[EXPOSURE, i], 1e-9)
        if season.shape[1]:
            found *= _phase_factor(rows, season, i)
        if special.shape[1]:
            found *= _phase_factor(rows, special, i)
        share[i] = found * _lasting_factor(rows, i)


@kernel(inline="always")
def _common_spread(pool):
    excess = max(pool[0] - pool[1], 0.0) / pool[2] if pool[2] > 0.0 else 0.0
    return excess, min(1.0, pool[0] / pool[1]) if pool[1] > 0.0 else 1.0


@kernel(inline="always")
def _spread(squares, noise, sizes, common, mean):
    # Over-dispersion and the factor of under-dispersion of a row, a few slices of it as all rows.
    weight = PRIOR * (mean * mean + 1.0)
    excess = max(squares - noise + common[0] * weight, 0.0) / (sizes + weight)
    weight = PRIOR * mean
    # A count cannot vary less than between two whole numbers.
    floor = max(LOWEST_FACTOR, min(1.0, 0.25 / mean))
    return excess, min(max((squares + common[1] * weight) / (noise + weight), floor), 1.0), floor


@kernel(inline="always")
def _variance(mean, excess, factor, events):
    return factor * (mean + excess * mean * mean) + mean * mean / events


@kernel(inline="always")
def _unsettled(excess, factor, floor, unrest):
    # Spread at a time when it is `unrest` times as large as usual. What varies like Poisson does
    # so at all times.
    if factor < 1.0:
        factor = min(max(factor * unrest, floor), 1.0)
    return excess * unrest, factor


@kernel
def unrest_of(known, time):
    return unrest_at(known, time)


@kernel
def compare_rows(rows, pool, unrest, share, sums, total, out):
    # Forecast, standard deviation and signed root of the deviance of every row, given the total.
    # A negative binomial whose size is what over-dispersion and the events so far leave open,
    # shrunk by the factor of under-dispersion; half an event of continuity.
    common = _common_spread(pool)
    for i in range(sums.shape[0]):
        events, squares, noise, sizes = HALF, 0.0, 0.0, 0.0
        if i < rows.shape[1]:
            events += rows[EVENTS, i]
            squares, noise, sizes = rows[SQUARES, i], rows[NOISE, i], rows[SIZES, i]
        mean = max(share[i] * total, 1e-12)
        excess, factor, floor = _spread(squares, noise, sizes, common, mean)
        excess, factor = _unsettled(excess, factor, floor, unrest)
        size = 1.0 / (excess + 1.0 / events)
        below = sums[i] < mean
        near = min(sums[i] + HALF, mean) if below else max(sums[i] - HALF, mean)
        deviance = 0.0
        if near != mean:  # as most pairs are, which are light: logarithms take longest
            deviance = (near + size) * math.log((mean + size) / (near + size))
            if near > 0.0:
                deviance += near * math.log(near / mean)
        root = math.sqrt(max(2.0 * deviance, 0.0) / factor)
        out[FORECAST, i] = mean
        out[DEVIATION, i] = math.sqrt(_variance(mean, excess, factor, events))
        out[SURPRISE, i] = -root if below else root


@kernel
def total_of_usual_rows(share, sums, out, n_known, before):
    # The total that the rows which are as usual tell, or `before` where they are too few.
    whole, part, events = 0.0, 0.0, 0.0
    for i in range(n_known):
        whole += share[i]
        if abs(out[SURPRISE, i]) < ODD:
            part += share[i]
            events += sums[i]
    return max(events / part, 1e-9) if part > LEAST_OTHERS * whole else before


@kernel
def judge_rows(rows, season, special, newcomer, pool, unrest, time, share, sums, total, least, out):
    # Shares and how rows compare, where the total is known. Returns what `extremes` does.
    row_shares(rows, season, special, newcomer, share)
    compare_rows(rows, pool, unrest_at(unrest, time), share, sums, total, out)
    return extremes(out, least)


@kernel
def widen_ranges(share, doubt, out):
    # Ranges wider by what is not known of the total. Spreads are learned with totals a row has part
    # in, which differ less from it than totals of the others alone: of two rows with half each by a
    # factor of two. Where odd rows leave few others the total stays a forecast, if it was one.
    whole, missed = 0.0, 0.0
    for i in range(share.shape[0]):
        whole += share[i]
        if abs(out[SURPRISE, i]) >= ODD:
            missed += share[i]
    whole = max(whole, 1e-12)
    others = 1.0 - missed / whole
    if others > 1.0 - HEAVIEST:
        return  # they know it well
    for i in range(share.shape[0]):
        if others <= LEAST_OTHERS:
            spread = out[DEVIATION, i]
            surer = spread / math.hypot(spread, doubt * out[FORECAST, i])
        elif abs(out[SURPRISE, i]) >= ODD:
            part = share[i] / whole
            surer = math.sqrt((1.0 - part) / (1.0 + part / others))
        else:
            continue
        out[DEVIATION, i] /= surer
        out[SURPRISE, i] *= surer


@kernel
def settle_rows(rows, pool, unrest, share, bare, sums, total, rounds, doubt, out):
    # Compares rows, and some times again with the total of those that are as usual, `bare` of which
    # they hold. Returns that; how odd rows are that were not odd before, of which each counts up to
    # one, that of an odd one; and the size of the largest surprise. `doubt` is the standard
    # deviation of a total that is a forecast, as a part of it.
    compare_rows(rows, pool, unrest, share, sums, total, out)
    for _ in range(rounds):
        total = total_of_usual_rows(bare, sums, out, bare.shape[0], total)
        compare_rows(rows, pool, unrest, share, sums, total, out)
    if rounds > 0:  # else all rows told the total, odd ones too
        widen_ranges(bare, doubt, out)
    odd, largest = 0.0, 0.0
    for i in range(sums.shape[0]):
        largest = max(largest, abs(out[SURPRISE, i]))
        if i >= rows.shape[1] or rows[STREAK, i] == 0.0:
            odd += min((out[SURPRISE, i] / ODD) ** 2, 1.0)
    return total, odd, largest


@kernel(fastmath=False)
def usual_total(sums, share, whole, parts, heavy):
    # A first guess of the total: the middle of what rows of at least `heavy` events say, or the sum
    # of all. What sums and shares add up to, `whole` and `parts`, whoever asks knows.
    n, least = 0, heavy * max(parts, 1e-12)
    said, weight = np.empty(share.shape[0]), np.empty(share.shape[0])
    for i in range(share.shape[0]):
        if share[i] * whole >= least:
            said[n], weight[n] = sums[i] / share[i], share[i]
            n += 1
    order = np.argsort(said[:n], kind="mergesort")  # which keeps the order of equal ones
    held = np.sum(weight[:n])
    if n == 0 or held < 0.5 * parts:
        return max(whole / max(parts, 1e-12), 1e-9)
    middle, so_far = 0, weight[order[0]]
    while middle < n - 1 and so_far < 0.5 * held:
        middle += 1
        so_far += weight[order[middle]]
    return max(said[order[middle]], 1e-9)


@kernel(fastmath=False)
def extremes(out, least):
    # Largest and smallest surprise, at least and at most zero, and how many rows are expected to
    # hold more than `least`.
    largest, smallest, number = 0.0, 0.0, 0
    for i in range(out.shape[1]):
        largest = max(largest, out[SURPRISE, i])
        smallest = min(smallest, out[SURPRISE, i])
        number += out[FORECAST, i] > least
    return largest, smallest, number


@kernel(fastmath=False)
def criticism(ordered):
    # How far the smaller half of p-values, in order, outnumber what chance would give.
    n, most = ordered.shape[0], 0.0
    for i in range(n // 2):
        p = ordered[i]
        spread = math.sqrt(max(p, 1.0 / n) * (1.0 - min(p, 0.999)))
        most = max(most, math.sqrt(n) * ((i + 1) / n - p) / spread)
    return most


@kernel
def learn_habits(rows, season, special, sums, out, n_known, total, spread):
    # Whether rows stay off, in units of their noise; before `learn_rows`, of which it is no part
    # because that has no branches and is compiled to vectors.
    for i in range(n_known):
        surprise = out[SURPRISE, i]
        base = total * (rows[EVENTS, i] + HALF) / max(rows[EXPOSURE, i], 1e-9)
        if season.shape[1]:
            base *= _phase_factor(rows, season, i)
        before, now = rows[LATELY, i], 0.0
        if base >= LASTING_LEAST and abs(surprise) <= ODD and not special.shape[1]:
            now = math.log((sums[i] + HALF) / (base + HALF))
        rows[LATELY, i] = now
        if spread:
            rows[PRODUCT, i] = LASTING_KEEP * rows[PRODUCT, i] + base * now * before
            rows[POWER, i] = LASTING_KEEP * rows[POWER, i] + base * before * before


@kernel
def learn_unrest(rows, pool, sums, out, n_known, known, time):
    # How much rows varied beyond Poisson, as a part of what they usually do. Before `learn_rows`,
    # which changes what was usual.
    common = _common_spread(pool)
    varied, learned = 0.0, 0.0
    for i in range(n_known):
        mean, deviation = out[FORECAST, i], out[DEVIATION, i]
        if mean < LASTING_LEAST:
            continue
        events = rows[EVENTS, i] + HALF
        excess, factor, _ = _spread(rows[SQUARES, i], rows[NOISE, i], rows[SIZES, i], common, mean)
        usual = _variance(mean, excess, factor, events)
        noise = mean * mean / events + (mean if factor == 1.0 else 0.0)
        squares = min((sums[i] - mean) ** 2, ROW_MOST * deviation * deviation)
        varied += (squares - noise) / usual
        learned += (usual - noise) / usual
    if learned >= LEAST_LEARNED:
        learn_time(known, time, max(varied / learned, 0.0), unrest_at(known, time))


@kernel
def learn_rows(
    rows,
    season,
    special,
    pool,
    sums,
    out,
    n_known,
    total,
    weight,
    ready,
    keeps,
    first_cycle,
):
    # `keeps`: of events, season and spread so far. `weight` is below 1 for a slice much louder
    # than usual, which then counts as an ordinary one and does not tell of the spread. What is odd
    # about a row is left out until it has stayed; a special day, for which `special` is there,
    # tells of special days only.
    keep, keep_season, keep_spread = keeps
    common = _common_spread(pool)
    spread = ready and weight == 1.0
    if spread:
        for j in range(3):
            pool[j] *= keep_spread
    for i in range(rows.shape[1]):
        learned, mean, deviation = sums[i], out[FORECAST, i], out[DEVIATION, i]
        flat = (rows[EVENTS, i] + HALF) / max(rows[EXPOSURE, i], 1e-9)
        seasonal = _phase_factor(rows, season, i) if season.shape[1] else 1.0
        if ready:
            rows[STREAK, i] = rows[STREAK, i] + 1.0 if abs(out[SURPRISE, i]) > ODD else 0.0
            width = 3.0 * math.sqrt(deviation * deviation + 0.25)
            if rows[STREAK, i] >= PATIENCE:
                width *= 1.0 + rows[STREAK, i]
            learned = min(max(learned, mean - width), mean + width)
        if spread:
            squares, noise, sizes = 0.0, 0.0, 0.0
            if i < n_known:
                # A row far out tells of itself, not of its spread; if it stays out, only once.
                events = rows[EVENTS, i] + HALF
                once = rows[STREAK, i] > 1.0 and keep_season > FAMILIAR
                most = 1.0 if once else ODD * ODD
                squares = min((sums[i] - mean) ** 2, most * deviation * deviation)
                excess, factor, _ = _spread(
                    rows[SQUARES, i], rows[NOISE, i], rows[SIZES, i], common, max(mean, 1e-12)
                )
                usual = _variance(mean, excess, factor, events)
                squares *= usual / max(deviation * deviation, 1e-300)  # as at any other time
                noise = mean + mean * mean / events
                sizes = mean * mean
            rows[SQUARES, i] = keep_spread * rows[SQUARES, i] + squares
            rows[NOISE, i] = keep_spread * rows[NOISE, i] + noise
            rows[SIZES, i] = keep_spread * rows[SIZES, i] + sizes
            pool[0] += squares
            pool[1] += noise
            pool[2] += sizes
        learned *= weight
        if special.shape[1]:
            special[0, i] = SPECIAL_KEEP * special[0, i] + learned
            special[1, i] = SPECIAL_KEEP * special[1, i] + flat * seasonal * total * weight
            continue
        if season.shape[1]:
            season[0, i] = keep_season * season[0, i] + learned
            usual = learned if first_cycle else flat * total * weight
            season[1, i] = keep_season * season[1, i] + usual
        rows[EVENTS, i] = keep * rows[EVENTS, i] + learned
        rows[EXPOSURE, i] = keep * rows[EXPOSURE, i] + total * weight * seasonal


@kernel
def learn_slice(
    rows, season, special, pool, sums, out, n_known, total, weight, ready, keeps, first_cycle,
    unrest, time,
):  # fmt: skip
    # All that a judged slice teaches, in one call: each takes as long as small slices need.
    ordinary = ready and weight == 1.0
    if ready and rows.shape[0] > LATELY:
        learn_habits(rows, season, special, sums, out, n_known, total, ordinary)
    if ordinary and unrest.shape[1] > 1 and not special.shape[1]:
        learn_unrest(rows, pool, sums, out, n_known, unrest, time)
    learn_rows(
        rows, season, special, pool, sums, out, n_known, total, weight, ready, keeps, first_cycle
    )

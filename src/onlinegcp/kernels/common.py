"""What rows show alone, without the moves they make together, and what is learned of these moves.

Surprises of rows are `n` numbers of variance one, of which those are asked that `heavy` says.
`found` is (moves, n) orthonormal directions in which they move together, `scale` how strongly: 0
for a direction that chance would show, too. `anomaly.common` says what for.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"

from __future__ import annotations

import math

import numpy as np

from onlinegcp.kernels.jit import kernel

OWN, TIMES = 0, 1  # of `alone`: squares of what a row showed alone, and how often it was asked
QUIETEST = 0.05  # least part of its variance that a row has for itself
STEADY = 1e-3  # part of a direction that stays, so that one without any data is still one


@kernel(inline="always")
def _own_variance(alone, i, prior):
    return max((alone[OWN, i] + prior) / (alone[TIMES, i] + prior), QUIETEST)


@kernel(fastmath=False)
def without_common(found, scale, alone, prior, surprise, heavy, largest, left):
    # left[i]: the surprise less what all other rows tell of it, in its own standard deviations; the
    # first row of `left` holds it in those of the surprise. Strengths of the moves are normal with
    # variance one before a slice is seen; what row i tells of them is taken out by its leverage.
    moves, n = found.shape
    inverse, strength = np.eye(moves), np.zeros(moves)
    for i in range(n):
        if not heavy[i]:
            continue
        own, seen = _own_variance(alone, i, prior), min(max(surprise[i], -largest), largest)
        for a in range(moves):
            weighed = scale[a] * found[a, i] / own
            strength[a] += weighed * seen
            for b in range(moves):
                inverse[a, b] += weighed * scale[b] * found[b, i]
    _invert(inverse)
    strength = _times(inverse, strength)
    for i in range(n):
        left[0, i] = left[1, i] = 0.0
        if not heavy[i]:
            continue
        own, seen = _own_variance(alone, i, prior), min(max(surprise[i], -largest), largest)
        told, leverage = 0.0, 0.0
        for a in range(moves):
            load = scale[a] * found[a, i]
            told += strength[a] * load
            for b in range(moves):
                leverage += load * inverse[a, b] * scale[b] * found[b, i]
        leverage /= own
        left[0, i] = surprise[i] - (told - leverage * seen) / (1.0 - leverage)
        left[1, i] = left[0, i] / math.sqrt(own)


@kernel(inline="always")
def _invert(matrix):
    # Gauss and Jordan in place; a positive definite matrix needs no pivots.
    n = matrix.shape[0]
    for k in range(n):
        pivot = 1.0 / matrix[k, k]
        matrix[k, k] = 1.0
        for j in range(n):
            matrix[k, j] *= pivot
        for i in range(n):
            if i != k:
                factor = matrix[i, k]
                matrix[i, k] = 0.0
                for j in range(n):
                    matrix[i, j] -= factor * matrix[k, j]


@kernel(inline="always")
def _times(matrix, vector):
    product = np.zeros(vector.shape[0])
    for a in range(matrix.shape[0]):
        for b in range(vector.shape[0]):
            product[a] += matrix[a, b] * vector[b]
    return product


@kernel(fastmath=False)
def learn_common(sums, found, scale, alone, surprise, heavy, left, largest, keep, slices, asked):
    # One step of orthogonal iteration: `sums` are (moves, n) of surprises times how strongly each
    # direction was there. `slices` are those in them, `asked` rows on average.
    moves, n = found.shape
    seen = np.zeros(n)
    for i in range(n):
        if heavy[i]:
            seen[i] = min(max(surprise[i], -largest), largest)
            alone[OWN, i] = keep * alone[OWN, i] + min(left[0, i] ** 2, largest * largest)
            alone[TIMES, i] = keep * alone[TIMES, i] + 1.0
    ratio = asked / slices
    for a in range(moves):
        strength = 0.0
        for i in range(n):
            strength += found[a, i] * seen[i]
        for i in range(n):
            sums[a, i] = keep * sums[a, i] + strength * seen[i]
            found[a, i] = sums[a, i] + STEADY * found[a, i]
        for b in range(a):
            shared = 0.0
            for i in range(n):
                shared += found[b, i] * found[a, i]
            for i in range(n):
                found[a, i] -= shared * found[b, i]
        length = 0.0
        for i in range(n):
            length += found[a, i] ** 2
        length = math.sqrt(length)
        for i in range(n):
            found[a, i] = found[a, i] / length if length > 1e-12 else 0.0
        # Fewer rows than four tell no move: it would be theirs alone.
        scale[a] = _real_scale(length / slices, ratio) if 4 * (a + 1) <= asked else 0.0


@kernel(inline="always")
def _real_scale(variance, ratio):
    # Of a direction found where there are `ratio` times as many rows as slices. Chance shows
    # variances up to (1 + sqrt(ratio))**2, and a real direction too large and turned, by what is
    # known of spiked covariances (Baik and Silverstein 2006, Paul 2007).
    if variance <= (1.0 + math.sqrt(ratio)) ** 2:
        return 0.0
    half = variance + 1.0 - ratio
    real = 0.5 * (half + math.sqrt(max(half * half - 4.0 * variance, 0.0))) - 1.0
    part = (1.0 - ratio / (real * real)) / (1.0 + ratio / real)
    return math.sqrt(max(real * part, 0.0))

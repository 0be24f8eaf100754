"""Compiled passes that share every count out among the components, for the factor updates.

Component r's share of a listed count x_j is x_j s_r z_jr / m_j; summed by row these shares are
the "responsibilities" phi of the EM algorithm. `with_sensitivity` adds, in the same pass, what the
learning of the forgetting needs. `tests/kernel_twins.py` says it in NumPy.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"

from __future__ import annotations

import numpy as np

from onlinegcp.kernels.auto.weights_newton import khatri_rao_row
from onlinegcp.kernels.jit import kernel
from onlinegcp.kernels.layout import ALL_MODES
from onlinegcp.losses.formulas import EPS


@kernel
def responsibilities(listed, weights, mode, places, phi):
    # phi[row] += shares, for one mode or, with ALL_MODES, for all; row i of mode k is row
    # places[k] + i of `phi`. Single writer, listed order.
    data, offsets, index, value = listed
    width = data.shape[1]
    z = np.empty(width)
    d = index.shape[1]
    first, last = (0, d) if mode == ALL_MODES else (mode, mode + 1)
    for j in range(index.shape[0]):
        khatri_rao_row(data, offsets, index, j, z)
        m = EPS
        for r in range(width):
            z[r] *= weights[r]
            m += z[r]
        w = value[j] / m
        for r in range(width):
            z[r] *= w
        for k in range(first, last):
            target = phi[places[k] + index[j, k]]
            for r in range(width):
                target[r] += z[r]


@kernel
def with_sensitivity(listed, ratio, weights, places, phi, slope, bend):
    # As `responsibilities` for all modes, and with ratio = (dA / d eta) / A:
    #   tau_jr = share of component r times the sum of its ratios over the modes,
    #   slope[r] = - sum_j x_j tau_jr, bend[r] = sum_j x_j tau_jr^2,
    # and returned: sum_j x_j (sum_r tau_jr)^2 and sum_j x_j log m_j.
    data, offsets, index, value = listed
    width = data.shape[1]
    d = index.shape[1]
    z, tau = np.empty(width), np.empty(width)
    slope[:] = 0.0
    bend[:] = 0.0
    common = 0.0
    logs = 0.0
    for j in range(index.shape[0]):
        row = offsets[0] + index[j, 0]
        a = data[row]
        b = ratio[row]
        for r in range(width):
            z[r] = weights[r] * a[r]
            tau[r] = b[r]
        for k in range(1, d):
            row = offsets[k] + index[j, k]
            a = data[row]
            b = ratio[row]
            for r in range(width):
                z[r] *= a[r]
                tau[r] += b[r]
        m = EPS
        for r in range(width):
            m += z[r]
        x = value[j]
        logs += x * np.log(m)
        w = 1.0 / m
        total = 0.0
        for r in range(width):
            y = z[r] * w
            t = y * tau[r]
            total += t
            slope[r] -= x * t
            bend[r] += x * t * t
            z[r] = x * y
        common += x * total * total
        for k in range(d):
            target = phi[places[k] + index[j, k]]
            for r in range(width):
                target[r] += z[r]
    return common, logs


@kernel
def listed_rates(listed, weights, linear, base, slope, mode, places, rate):
    # rate[row] += v_j h(m_j) s_r prod over the other modes, with v = base + slope x and
    # h = 1 (linear) or 1 / (1 + m), over listed cells; ALL_MODES: each.
    # Adds to `rate`, in which row i of mode k is row places[k] + i; single writer, listed order.
    data, offsets, index, value = listed
    width = data.shape[1]
    z = np.empty(width)
    d = index.shape[1]
    first, last = (0, d) if mode == ALL_MODES else (mode, mode + 1)
    for j in range(index.shape[0]):
        khatri_rao_row(data, offsets, index, j, z)
        m = 0.0
        for r in range(width):
            m += z[r] * weights[r]
        h = base + slope * value[j]
        if not linear:
            h /= 1.0 + m
        for k in range(first, last):
            # Multiplied out, not divided out: a factor entry may be zero.
            for r in range(width):
                z[r] = h * weights[r]
            for other in range(k):
                a = data[offsets[other] + index[j, other]]
                for r in range(width):
                    z[r] *= a[r]
            for other in range(k + 1, d):
                a = data[offsets[other] + index[j, other]]
                for r in range(width):
                    z[r] *= a[r]
            target = rate[places[k] + index[j, k]]
            for r in range(width):
                target[r] += z[r]

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"
"""Built-in losses as compiled scalar functions, chosen by their integer code.

Kernels take the code and the parameter of a loss instead of a function: code that takes or
closes over a compiled function misses Numba's disk cache in every process. The chain of
comparisons costs about a nanosecond, since the branch is the same for a whole kernel call.
"""

from __future__ import annotations

import numpy as np

from onlinegcp.kernels.jit import kernel
from onlinegcp.losses import CURVATURES, FORMULAS

# One name per function: Numba resolves globals by name, and does not index into a dict.
_value_0 = kernel(FORMULAS[0][0])
_value_1 = kernel(FORMULAS[1][0])
_value_2 = kernel(FORMULAS[2][0])
_value_3 = kernel(FORMULAS[3][0])
_value_4 = kernel(FORMULAS[4][0])
_value_5 = kernel(FORMULAS[5][0])
_value_6 = kernel(FORMULAS[6][0])
_value_7 = kernel(FORMULAS[7][0])
_value_8 = kernel(FORMULAS[8][0])
_value_9 = kernel(FORMULAS[9][0])
_value_10 = kernel(FORMULAS[10][0])
_deriv_0 = kernel(FORMULAS[0][1])
_deriv_1 = kernel(FORMULAS[1][1])
_deriv_2 = kernel(FORMULAS[2][1])
_deriv_3 = kernel(FORMULAS[3][1])
_deriv_4 = kernel(FORMULAS[4][1])
_deriv_5 = kernel(FORMULAS[5][1])
_deriv_6 = kernel(FORMULAS[6][1])
_deriv_7 = kernel(FORMULAS[7][1])
_deriv_8 = kernel(FORMULAS[8][1])
_deriv_9 = kernel(FORMULAS[9][1])
_deriv_10 = kernel(FORMULAS[10][1])
_fisher_0 = kernel(CURVATURES[0][1])
_fisher_1 = kernel(CURVATURES[1][1])
_fisher_2 = kernel(CURVATURES[2][1])
_fisher_3 = kernel(CURVATURES[3][1])
_fisher_4 = kernel(CURVATURES[4][1])
_fisher_5 = kernel(CURVATURES[5][1])
_fisher_6 = kernel(CURVATURES[6][1])
_fisher_7 = kernel(CURVATURES[7][1])
_fisher_8 = kernel(CURVATURES[8][1])
_fisher_9 = kernel(CURVATURES[9][1])
_fisher_10 = kernel(CURVATURES[10][1])


@kernel
def loss_value(code, p, x, m):
    """f(x, m) of the loss with this code and parameter."""
    if code == 0:  # gaussian
        return _value_0(x, m, p)
    if code == 1:  # poisson
        return _value_1(x, m, p)
    if code == 2:  # poisson_log
        return _value_2(x, m, p)
    if code == 3:  # bernoulli_odds
        return _value_3(x, m, p)
    if code == 4:  # bernoulli_logit
        return _value_4(x, m, p)
    if code == 5:  # rayleigh
        return _value_5(x, m, p)
    if code == 6:  # gamma
        return _value_6(x, m, p)
    if code == 7:  # huber
        return _value_7(x, m, p)
    if code == 8:  # negative_binomial
        return _value_8(x, m, p)
    if code == 9:  # beta
        return _value_9(x, m, p)
    if code == 10:  # zero_truncated_poisson
        return _value_10(x, m, p)
    return np.nan


@kernel
def loss_deriv(code, p, x, m):
    """The slope f'(m) of the loss with this code and parameter."""
    if code == 0:  # gaussian
        return _deriv_0(x, m, p)
    if code == 1:  # poisson
        return _deriv_1(x, m, p)
    if code == 2:  # poisson_log
        return _deriv_2(x, m, p)
    if code == 3:  # bernoulli_odds
        return _deriv_3(x, m, p)
    if code == 4:  # bernoulli_logit
        return _deriv_4(x, m, p)
    if code == 5:  # rayleigh
        return _deriv_5(x, m, p)
    if code == 6:  # gamma
        return _deriv_6(x, m, p)
    if code == 7:  # huber
        return _deriv_7(x, m, p)
    if code == 8:  # negative_binomial
        return _deriv_8(x, m, p)
    if code == 9:  # beta
        return _deriv_9(x, m, p)
    if code == 10:  # zero_truncated_poisson
        return _deriv_10(x, m, p)
    return np.nan


@kernel
def loss_fisher(code, p, x, m):
    """The expected curvature (for huber its weight) of the loss with this code and parameter."""
    if code == 0:  # gaussian
        return _fisher_0(x, m, p)
    if code == 1:  # poisson
        return _fisher_1(x, m, p)
    if code == 2:  # poisson_log
        return _fisher_2(x, m, p)
    if code == 3:  # bernoulli_odds
        return _fisher_3(x, m, p)
    if code == 4:  # bernoulli_logit
        return _fisher_4(x, m, p)
    if code == 5:  # rayleigh
        return _fisher_5(x, m, p)
    if code == 6:  # gamma
        return _fisher_6(x, m, p)
    if code == 7:  # huber
        return _fisher_7(x, m, p)
    if code == 8:  # negative_binomial
        return _fisher_8(x, m, p)
    if code == 9:  # beta
        return _fisher_9(x, m, p)
    if code == 10:  # zero_truncated_poisson
        return _fisher_10(x, m, p)
    return np.nan


@kernel
def loss_value_array(code, p, x, m, out):
    """Fill out with loss_value of the vectors x and m."""
    for s in range(x.shape[0]):
        out[s] = loss_value(code, p, x[s], m[s])


@kernel
def loss_deriv_array(code, p, x, m, out):
    """Fill out with loss_deriv of the vectors x and m."""
    for s in range(x.shape[0]):
        out[s] = loss_deriv(code, p, x[s], m[s])


@kernel
def loss_fisher_array(code, p, x, m, out):
    """Fill out with loss_fisher of the vectors x and m."""
    for s in range(x.shape[0]):
        out[s] = loss_fisher(code, p, x[s], m[s])

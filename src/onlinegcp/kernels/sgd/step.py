"""Compiled descent steps: SGD, Adam, AdaGrad, AMSGrad on aligned vectors, with a lower bound.

The formulas are those of `solvers.sgd.steps`, which is where they are explained; here they run over
whole vectors, add the ridge and anchor penalties on the way, and leave the gradient zero for the
next iteration.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"

from __future__ import annotations

from onlinegcp.kernels.jit import kernel
from onlinegcp.kernels.layout import LANES
from onlinegcp.kernels.sgd.plan import ADAGRAD, AMSGRAD, SGD
from onlinegcp.kernels.simd import (
    add,
    divide,
    fill,
    load,
    maximum,
    multiply,
    multiply_add,
    square_root,
    store,
    subtract,
)


@kernel
def step_rows(
    kind,
    first,  # rows first .. last - 1
    last,
    width,
    rate,  # with the bias correction of Adam already in it
    beta_1,
    beta_2,
    epsilon,
    ridge,  # adds ridge * a to the gradient
    anchor,  # adds anchor * (a - old) to the gradient
    floor,  # (width,): lower bound, 0 in the padding
    a,  # (rows * width,), changed
    old,  # like a; read only where anchor != 0
    gradient,  # like a; set to 0
    u,  # first moment, changed (Adam, AMSGrad)
    v,  # second moment, changed (all but SGD)
    largest,  # largest second moment so far, changed (AMSGrad)
):
    """Move rows one step down their gradient."""
    zero = fill(0.0)
    rates, epsilons = fill(-rate), fill(epsilon)
    ridges, anchors = fill(ridge), fill(anchor)
    keep_1, new_1 = fill(beta_1), fill(1.0 - beta_1)
    keep_2, new_2 = fill(beta_2), fill(1.0 - beta_2)
    for row in range(first, last):
        for c in range(0, width, LANES):
            e = row * width + c
            here = load(a, e)
            g = multiply_add(ridges, here, load(gradient, e))
            if anchor != 0.0:
                g = multiply_add(anchors, subtract(here, load(old, e)), g)
            store(gradient, e, zero)
            if kind == SGD:
                here = multiply_add(rates, g, here)
            elif kind == ADAGRAD:
                second = multiply_add(g, g, load(v, e))
                store(v, e, second)
                here = multiply_add(rates, divide(g, _root(second, epsilons)), here)
            else:
                mean = multiply_add(keep_1, load(u, e), multiply(new_1, g))
                second = multiply_add(keep_2, load(v, e), multiply(new_2, multiply(g, g)))
                store(u, e, mean)
                store(v, e, second)
                if kind == AMSGRAD:
                    second = maximum(load(largest, e), second)
                    store(largest, e, second)
                here = multiply_add(rates, divide(mean, _root(second, epsilons)), here)
            store(a, e, maximum(here, load(floor, c)))


@kernel(forceinline=True)
def _root(second, epsilons):
    """sqrt(second) + epsilon."""
    return add(square_root(second), epsilons)

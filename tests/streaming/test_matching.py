"""Patterns of two models are matched whatever their order, scale and sign."""

import numpy as np

from onlinegcp.streaming.matching import match, n_replaced


def test_order_and_signs_are_found_again():
    rng = np.random.default_rng(0)
    old = [rng.standard_normal((n, 4)) for n in (9, 8)]
    order = [2, 0, 3, 1]
    signs = np.array([1.0, -2.0, 3.0, -1.0])
    new = [old[0][:, order] * signs, old[1][:, order]]
    found, congruence = match(old, new)
    np.testing.assert_array_equal(new[1][:, found], old[1])
    np.testing.assert_allclose(congruence, 1.0)
    assert n_replaced(old, new) == 0


def test_new_patterns_are_counted():
    rng = np.random.default_rng(1)
    old = [rng.standard_normal((30, 5)) for _ in range(3)]
    new = [a.copy() for a in old]
    for a in new:
        a[:, [1, 4]] = rng.standard_normal((30, 2))
    assert n_replaced(old, new) == 2
    assert n_replaced(old, [np.zeros_like(a) for a in old]) == 5

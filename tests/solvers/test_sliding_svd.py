"""The sliding decomposition against explicit windows."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.solvers.sliding_svd import Window, decomposed, rebuilt


def window_of(rank=3, n=8, cells=30, noise=0.05, seed=0):
    rng = np.random.default_rng(seed)
    basis = rng.normal(size=(cells, rank))
    data = rng.normal(size=(n, rank)) @ basis.T + noise * rng.normal(size=(n, cells))
    return data, basis


def test_a_window_is_the_best_of_its_rank():
    data, basis = window_of()
    window = decomposed(data, basis)
    u, s, v = np.linalg.svd(data, full_matrices=False)
    best = (u[:, :3] * s[:3]) @ v[:3]
    np.testing.assert_allclose(window.right @ window.middle.T @ window.left.T, best, atol=1e-12)
    np.testing.assert_allclose(window.turn @ window.unturn, np.eye(3), atol=1e-12)


@pytest.mark.parametrize("forget", [0.8, 1.0])
def test_following_equals_decomposing_again(forget):
    """Exactly without noise, where the window has the rank that is kept."""
    data, basis = window_of(noise=0.0)
    fade = np.sqrt(forget) ** np.arange(7, -1, -1)[:, None]
    window = decomposed(fade * data, basis)
    rng = np.random.default_rng(1)
    for _ in range(20):
        weights = rng.normal(size=3)
        x = basis @ weights
        window = window.follow(x, forget, weights)
        data = np.vstack([data[1:], x])
        found = window.right @ window.middle.T @ window.left.T
        np.testing.assert_allclose(found, fade * data, atol=1e-10)
        np.testing.assert_allclose(window.basis(), basis, atol=1e-9)
        np.testing.assert_allclose(window.unturn @ window.right[-1], weights, atol=1e-9)
        np.testing.assert_allclose(window.left.T @ window.left, np.eye(3), atol=1e-12)


def test_windows_that_lack_a_component_are_not_decomposed_but_rebuilt():
    data, basis = window_of(noise=0.0)
    rows = np.random.default_rng(2).normal(size=(8, 3))
    rows[:, 1] = 0.0
    assert decomposed(rows @ basis.T, basis) is None
    assert decomposed(data[:2], basis) is None
    for weights in (rows, np.zeros((8, 3))):
        window = rebuilt(basis, weights, np.ones(3))
        np.testing.assert_allclose(window.basis(), basis, atol=1e-9)
    assert rebuilt(basis[:2], rows, np.ones(3)) is None
    assert rebuilt(basis * [1.0, 1.0, 0.0], rows, np.ones(3)) is None


@pytest.mark.parametrize("seed", range(20))
def test_patterns_outlive_a_component_that_leaves_the_window(seed):
    """Whatever rounding makes of it: how a component is lost differs from seed to seed."""
    data, basis = window_of(noise=0.0, seed=seed)
    fade = np.sqrt(0.9) ** np.arange(7, -1, -1)[:, None]
    window = decomposed(fade * data, basis)
    weights = np.array([1.0, 0.5, 0.0])
    for _ in range(20):
        window = window.follow(basis @ weights, 0.9, weights)
        np.testing.assert_allclose(window.basis(), basis, atol=1e-6)


def test_an_inverse_that_went_astray_is_computed_anew():
    data, basis = window_of(noise=0.0)
    window = decomposed(data, basis)
    astray = Window(window.left, window.middle, window.right, window.turn, 1.1 * window.unturn)
    found = astray.follow(basis @ np.ones(3), 0.9, np.ones(3))
    np.testing.assert_allclose(found.turn @ found.unturn, np.eye(3), atol=1e-9)

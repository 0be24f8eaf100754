"""Sums of residuals: what noise alone makes of them, and what patterns do."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.ktensor import KTensor
from onlinegcp.losses import get_loss
from onlinegcp.slices import Slice
from onlinegcp.streaming.residuals import (
    cells,
    component_sizes,
    full,
    measurable,
    noise_edge,
    residuals,
    squared_sizes,
)

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("shape", [(7, 5), (4, 6, 3), (2, 9, 3, 2)])
def test_a_model_is_written_out(shape):
    views, weights = tuple(RNG.standard_normal((n, 3)) for n in shape), RNG.standard_normal(3)
    np.testing.assert_allclose(full(weights, views), KTensor(weights, views).full(), atol=1e-12)


@pytest.mark.parametrize("name", ["gaussian", "poisson", "bernoulli_odds", "bernoulli_logit"])
def test_residuals_at_the_truth_have_the_size_of_noise(name):
    """Sums over draws: mean 0, and the variance that the likelihood has there."""
    loss = get_loss(name)
    fitted = RNG.uniform(0.5, 2.0, (200, 200))
    drawn = np.asarray(loss.sample(RNG, fitted), dtype=float)
    scores = residuals(drawn, fitted, loss)
    # Squared error is no log-likelihood: (x - m)^2 has twice the slope of the one of variance 1.
    size = 2.0 if name == "gaussian" else 1.0
    assert abs(scores.mean()) < 0.03
    assert scores.var() == pytest.approx(size, rel=0.05)


@pytest.mark.parametrize("shape", [(60, 40), (20, 60, 4)])
def test_pure_noise_ends_at_the_edge(shape):
    noise = RNG.standard_normal(np.prod(shape))
    sizes = squared_sizes(noise, shape)
    longest = int(np.argmax(shape))
    matrix = np.moveaxis(noise.reshape(shape), longest, 0).reshape(shape[longest], -1)
    np.testing.assert_allclose(
        sizes, np.sort(np.linalg.svd(matrix, compute_uv=False) ** 2)[::-1], rtol=1e-8
    )
    assert sizes[0] == pytest.approx(noise_edge(float(noise @ noise), shape), rel=0.1)


def test_components_have_the_size_that_their_arrays_have():
    views, weights = tuple(RNG.uniform(size=(n, 2)) for n in (5, 4)), np.array([2.0, 3.0])
    precision = RNG.uniform(0.5, 2.0, (5, 4))
    expected = [
        np.einsum("i,j,ij->", (w * a) ** 2, b**2, precision)
        for w, a, b in zip(weights, views[0].T, views[1].T, strict=True)
    ]
    np.testing.assert_allclose(component_sizes(weights, views, precision), expected)


def test_what_cannot_be_measured():
    holes = np.ones((3, 3))
    holes[0, 0] = np.nan
    assert measurable(Slice.dense(np.ones((3, 3))))
    assert not measurable(Slice.dense(holes))
    assert not measurable(Slice.dense(np.ones(3)))
    assert not measurable(Slice(np.array([[0, 0]]), np.ones(1), (300, 300)))
    sparse = Slice(np.array([[1, 2]]), np.array([5.0]), (3, 3))
    assert cells(sparse)[1, 2] == 5.0
    assert cells(sparse).sum() == 5.0

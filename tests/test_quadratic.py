"""Least squares: weights are exact, factors minimise slice plus history."""

import numpy as np
import pytest
import scipy.optimize

from onlinegcp.kernels.layout import stack_factors
from onlinegcp.slices import Slice
from onlinegcp.solvers import forgetting, quadratic
from onlinegcp.solvers.quadratic import SquareHistory


def unit(matrix):
    return matrix / np.sqrt((matrix**2).sum(axis=0))


def test_nonnegative_weights_agree_with_bounded_least_squares():
    rng = np.random.default_rng(0)
    rows, x = rng.standard_normal((40, 6)), rng.standard_normal(40)
    found = quadratic.solve_weights(rows.T @ rows, rows.T @ x, nonnegative=True)
    best = scipy.optimize.lsq_linear(rows, x, bounds=(0.0, np.inf), tol=1e-14).x
    np.testing.assert_allclose(found, best, atol=1e-6)
    assert (found == 0.0).any()


def test_weights_agree_with_least_squares_on_the_full_slice():
    rng = np.random.default_rng(1)
    factors = [unit(rng.standard_normal((n, 4))) for n in (6, 1, 5)]
    x = rng.standard_normal((6, 1, 5))
    rows = np.einsum("az,bz,cz->abcz", *factors).reshape(-1, 4)
    expected = np.linalg.lstsq(rows, x.reshape(-1), rcond=None)[0]
    blocks, out = stack_factors(factors), None
    for listing in (Slice.dense(x), Slice(np.argwhere(x), x[x != 0], x.shape)):
        out = np.zeros_like(blocks.data)
        quadratic.slice_products(listing, blocks, 0, out)
        right = (out[:6, :4] * factors[0]).sum(axis=0)
        gram = np.prod(quadratic.grams(blocks), axis=0)
        np.testing.assert_allclose(quadratic.solve_weights(gram, right), expected, rtol=1e-6)


@pytest.mark.parametrize("shape", [(9,), (6, 5), (4, 3, 5)], ids=str)
def test_the_first_mode_minimises_slice_plus_history(shape):
    rng = np.random.default_rng(2)
    rank, lam = 3, 0.5
    factors = [unit(rng.standard_normal((n, rank))) for n in shape]
    past = rng.standard_normal((7, rank))
    x = rng.standard_normal(shape)
    blocks = stack_factors(factors)
    history = SquareHistory(past.T @ past, np.zeros_like(blocks.data), 1.0)
    memory = forgetting.start(1.0, blocks.width, 1.0)
    gram = np.prod(quadratic.grams(blocks), axis=0)
    out = np.zeros_like(blocks.data)
    quadratic.slice_products(Slice.dense(x), blocks, 0, out)
    weights = quadratic.solve_weights(gram, (out[: shape[0], :rank] * factors[0]).sum(axis=0))
    others = np.ones((1, rank))
    for a in factors[1:]:
        others = (others[:, None, :] * a[None]).reshape(-1, rank)
    # Stack slice and forgotten old models as one least-squares problem for mode 0.
    design = [weights * others, *(np.sqrt(lam) * s * others for s in past)]
    target = [x.reshape(shape[0], -1), *(np.sqrt(lam) * (factors[0] * s) @ others.T for s in past)]
    expected = np.linalg.lstsq(
        np.concatenate(design), np.concatenate(target, axis=1).T, rcond=None
    )[0].T
    quadratic.step(blocks, Slice.dense(x), history, memory, lam)
    np.testing.assert_allclose(blocks.views()[0], unit(expected), atol=1e-6)


def test_the_loss_after_the_update_is_that_of_the_updated_model():
    rng = np.random.default_rng(3)
    factors = [unit(rng.standard_normal((n, 3))) for n in (6, 5)]
    x = rng.standard_normal((6, 5))
    blocks = stack_factors(factors)
    history = SquareHistory(np.eye(3), np.zeros_like(blocks.data), 1.0)
    memory = forgetting.start("auto", blocks.width, 1.0)
    weights, before, after, _ = quadratic.step(blocks, Slice.dense(x), history, memory, 0.9)
    a, b = blocks.views()
    assert after == pytest.approx(((x - (a * weights) @ b.T) ** 2).sum(), rel=1e-9)
    assert after < before
    np.testing.assert_allclose((a**2).sum(axis=0), 1.0)


def test_the_learned_slope_is_that_of_the_prequential_loss():
    # Two models that differ in memory; the sensitivity must predict their difference.
    rng = np.random.default_rng(4)
    factors = [unit(rng.standard_normal((n, 2))) for n in (12, 9)]
    slices = [rng.standard_normal((12, 9)) for _ in range(3)]

    def run(theta, learned):
        blocks = stack_factors(factors)
        history = SquareHistory(20.0 * np.eye(2), np.zeros_like(blocks.data), 1.0)
        memory = forgetting.start("auto" if learned else 1.0, blocks.width, 1.0)
        memory.memory = -np.log(1.0 - theta)
        if not learned:
            memory.fixed = theta
        quadratic.step(blocks, Slice.dense(slices[0]), history, memory, 0.9999)
        return blocks.views(), history.sensitivity

    eta = -np.log(1.0 - 0.9)
    up, _ = run(1.0 - np.exp(-(eta + 1e-5)), False)
    down, _ = run(1.0 - np.exp(-(eta - 1e-5)), False)
    # learn() moves nothing at zero sensitivity, so this run uses theta = 0.9 exactly.
    _, sensitivity = run(0.9, True)
    numeric = np.concatenate([(a - b) / 2e-5 for a, b in zip(up, down, strict=True)])
    found = sensitivity[:, :2]
    assert np.corrcoef(found.ravel(), numeric.ravel())[0, 1] > 0.95
    assert 0.5 < np.abs(found).sum() / np.abs(numeric).sum() < 2.0

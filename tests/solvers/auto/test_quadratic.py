"""Least squares: weights are exact, factors minimise slice plus history."""

import numpy as np
import pytest
import scipy.optimize

from auto_steps import model_of
from onlinegcp.kernels.layout import stack_factors
from onlinegcp.losses import get_loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto import quadratic
from onlinegcp.solvers.auto.quadratic import Square
from onlinegcp.solvers.auto.slice_products import SliceProducts

LOSS = get_loss("gaussian")


def unit(matrix):
    return matrix / np.sqrt((matrix**2).sum(axis=0))


def test_nonnegative_weights_agree_with_bounded_least_squares():
    rng = np.random.default_rng(0)
    rows, x = rng.standard_normal((40, 6)), rng.standard_normal(40)
    found = quadratic.solve_weights(rows.T @ rows, rows.T @ x, bounded=True)
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
        SliceProducts(listing, blocks.width)(blocks, 0, out)
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
    history = Square(past.T @ past, np.zeros_like(blocks.data), 1.0, np.zeros((0, blocks.width)))
    gram = np.prod(quadratic.grams(blocks), axis=0)
    out = np.zeros_like(blocks.data)
    SliceProducts(Slice.dense(x), blocks.width)(blocks, 0, out)
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
    history.step(model_of(blocks, history, 1.0), Slice.dense(x), LOSS, lam, 0)
    np.testing.assert_allclose(blocks.views()[0], unit(expected), atol=1e-6)


def bounded_problem(seed):
    rng = np.random.default_rng(seed)
    shape, rank = (7, 1, 5), 4
    old = [unit(rng.random((n, rank)) * (rng.random((n, rank)) < 0.6) + 1e-3) for n in shape]
    past = rng.random((9, rank))
    x = np.einsum("z,az,bz,cz->abc", rng.random(rank), *old) + rng.standard_normal(shape)
    blocks = stack_factors(old)
    products = np.zeros_like(blocks.data)
    SliceProducts(Slice.dense(x), blocks.width)(blocks, 0, products)
    right = (products[:7, :rank] * old[0]).sum(axis=0)
    gram = np.prod(quadratic.grams(blocks), axis=0)
    weights = quadratic.solve_weights(gram, right, bounded=True)
    none = np.zeros_like(blocks.data)
    return old, past, x, blocks, weights, Square(past.T @ past, none, 1.0, none.copy())


def stacked(old, new, past, weights, x, lam, mode):
    """Slice and forgotten old models as one least-squares problem in the rows of a mode.

    When a mode is solved, modes before it are new and modes after it old. Scales of the others'
    columns do not matter: they only rescale this mode's.
    """
    others = before = np.ones((1, old[0].shape[1]))
    for k, a in enumerate(old):
        if k != mode:
            now = new[k] if k < mode else a
            others = (others[:, None] * now[None]).reshape(-1, a.shape[1])
            before = (before[:, None] * a[None]).reshape(-1, a.shape[1])
    design = [weights * others, *(np.sqrt(lam) * s * others for s in past)]
    target = [np.moveaxis(x, mode, 0).reshape(x.shape[mode], -1)]
    target += [np.sqrt(lam) * (old[mode] * s) @ before.T for s in past]
    return np.concatenate(design), np.concatenate(target, axis=1)


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("forget", ["auto", 1.0])
def test_bounded_modes_are_the_nonnegative_optimum_of_slice_plus_history(mode, forget):
    lam = 0.5
    old, past, x, blocks, weights, history = bounded_problem(6)
    model = model_of(blocks, history, forget, bounded=True)
    after = history.step(model, Slice.dense(x), LOSS, lam, 0).weights[:4]
    new = blocks.views()
    assert all((a >= 0.0).all() for a in (*new, after))
    assert any((a == 0.0).any() for a in new)
    design, target = stacked(old, new, past, weights, x, lam, mode)
    expected = np.array([scipy.optimize.nnls(design, b)[0] for b in target])
    np.testing.assert_allclose(new[mode], unit(expected), atol=1e-6)
    np.testing.assert_array_equal(new[mode] == 0.0, expected == 0.0)
    rows = np.einsum("az,bz,cz->abcz", *new).reshape(-1, 4)
    np.testing.assert_allclose(after, scipy.optimize.nnls(rows, x.reshape(-1))[0], atol=1e-6)


def test_what_the_bound_held_back_is_remembered():
    lam = 0.5
    old, past, x, blocks, weights, history = bounded_problem(7)
    history.slope[:7, :4] = 3.0 * (old[0] < 0.1)
    kept = history.slope[:7, :4].copy()
    history.step(model_of(blocks, history, 1.0, bounded=True), Slice.dense(x), LOSS, lam, 0)
    new = blocks.views()[0]
    design, target = stacked(old, [], past, weights, x, lam, 0)
    # The optimality conditions, up to the length of the columns: slope zero where free, and
    # nonnegative, then remembered, where held.
    system, right = design.T @ design, target @ design - lam * kept

    def slopes(scale):
        return (new * scale) @ system - right

    scale = scipy.optimize.least_squares(
        lambda s: (slopes(s) * (new > 0.0)).ravel(), np.ones(4), xtol=1e-15, ftol=1e-15
    ).x
    np.testing.assert_allclose(slopes(scale)[new > 0.0], 0.0, atol=1e-6)
    assert (slopes(scale)[new == 0.0] >= 0.0).all()
    left = np.where(new > 0.0, 0.0, slopes(scale)) * scale
    np.testing.assert_allclose(history.slope[:7, :4], left, atol=1e-6)
    assert (history.slope[:7, :4] > 0.0).any()


def test_held_entries_do_not_follow_the_memory():
    _, _, x, blocks, _, history = bounded_problem(8)
    history.step(model_of(blocks, history, bounded=True), Slice.dense(x), LOSS, 0.9, 0)
    held = blocks.data[:, :4] == 0.0
    assert held.any()
    assert (history.sensitivity[:, :4][held] == 0.0).all()
    assert (history.sensitivity[:, :4][~held] != 0.0).any()


def test_the_loss_after_the_update_is_that_of_the_updated_model():
    rng = np.random.default_rng(3)
    factors = [unit(rng.standard_normal((n, 3))) for n in (6, 5)]
    x = rng.standard_normal((6, 5))
    blocks = stack_factors(factors)
    history = Square(np.eye(3), np.zeros_like(blocks.data), 1.0, np.zeros((0, blocks.width)))
    step = history.step(model_of(blocks, history), Slice.dense(x), LOSS, 0.9, 0)
    weights, before, after = step.weights[:3], step.prequential, step.local
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
        history = Square(
            20.0 * np.eye(2), np.zeros_like(blocks.data), 1.0, np.zeros((0, blocks.width))
        )
        model = model_of(blocks, history, "auto" if learned else 1.0)
        model.memory.memory = -np.log(1.0 - theta)
        if not learned:
            model.memory.fixed = theta
        history.step(model, Slice.dense(slices[0]), LOSS, 0.9999, 0)
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

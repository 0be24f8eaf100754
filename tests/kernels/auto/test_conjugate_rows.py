"""Row updates of the conjugate history keep columns normalised and obey their limits."""

import numpy as np

from onlinegcp.kernels.auto import conjugate_rows
from onlinegcp.kernels.auto.arguments import Blend


def columns(rows, width, seed):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(rows), width).T.copy()


def test_blend_is_the_old_factor_without_counts_and_the_slice_without_history():
    old, counts = columns(5, 4, 0), 10.0 * columns(5, 4, 1)
    data, sums = np.zeros((5, 4)), np.zeros(4)
    shared = np.full((1, 4), 10.0)
    nothing, rate = np.zeros((5, 4)), np.full((5, 4), 3.0)
    conjugate_rows.blend(Blend(old, nothing, rate, np.ones(4), shared * 0), 0, 5, sums, data)
    np.testing.assert_allclose(data, old, rtol=1e-13)
    conjugate_rows.blend(Blend(old, counts, rate, np.zeros(4), shared), 0, 5, sums, data)
    np.testing.assert_allclose(data, counts / 10.0, rtol=1e-13)


def test_blend_keeps_a_row_with_neither_history_nor_exposure():
    old = columns(3, 4, 0)
    data, sums = np.zeros((3, 4)), np.zeros(4)
    zero = np.zeros((3, 4))
    conjugate_rows.blend(Blend(old, zero, zero, np.ones(4), zero), 0, 3, sums, data)
    np.testing.assert_allclose(data, old, rtol=1e-13)


def test_blend_minimises_counts_plus_history():
    # Per entry the blend minimises (prior + exposure) a - (prior old + phi) log a.
    rng = np.random.default_rng(2)
    old, phi = columns(4, 4, 3), rng.random((4, 4))
    rate, exposure, lam = rng.random((4, 4)) + 1.0, rng.random((4, 4)) + 0.5, np.full(4, 0.7)
    data, sums = np.zeros((4, 4)), np.zeros(4)
    conjugate_rows.blend(Blend(old, phi, rate, lam, exposure), 0, 4, sums, data)
    best = data * sums

    def objective(a):
        return ((0.7 * rate + exposure) * a - (0.7 * rate * old + phi) * np.log(a)).sum()

    for direction in rng.standard_normal((20, 4, 4)):
        assert objective(best) < objective(best * np.exp(1e-3 * direction))


def test_absorb_adds_exposure_floors_entries_and_follows_the_memory():
    rng = np.random.default_rng(4)
    old, phi = columns(6, 4, 5), rng.random((6, 4))
    rate, exposure = rng.random((6, 4)) + 1.0, rng.random((6, 4)) + 0.5

    def run(lam):
        data, sums = np.zeros((6, 4)), np.zeros(4)
        conjugate_rows.blend(Blend(old, phi, rate, np.full(4, lam), exposure), 0, 6, sums, data)
        return data, sums

    data, scale = run(0.8)
    after, sensitivity = rate.copy(), np.zeros((6, 4))
    parts = Blend(old, phi, after, np.full(4, 0.8), exposure)
    lift = np.full(4, 1.0 / 0.8)  # d log(lam rate) per unit of lam
    conjugate_rows.absorb(parts, 0, 6, scale, lift, np.full(4, 1e-9), True, sensitivity, data)
    np.testing.assert_allclose(after, (0.8 * rate + exposure) * scale)
    # Normalisation is treated to first order around columns of sum one, hence the loose bound.
    numeric = (run(0.8 + 1e-6)[0] - run(0.8 - 1e-6)[0]) / 2e-6
    assert np.corrcoef(sensitivity.ravel(), numeric.ravel())[0, 1] > 0.97
    np.testing.assert_allclose(sensitivity.sum(axis=0), 0.0, atol=1e-12)

    conjugate_rows.absorb(parts, 0, 6, scale, lift, np.full(4, 0.05), False, sensitivity, data)
    np.testing.assert_allclose(data.sum(axis=0), 1.0)
    assert data.min() > 0.05 / 1.3


def test_blocks_of_rows_with_sums_between_make_the_whole_mode():
    rng = np.random.default_rng(8)
    old, phi = columns(7, 4, 5), rng.random((7, 4))
    rate, exposure = rng.random((7, 4)) + 1.0, rng.random((7, 4)) + 0.5
    lam, lift, scale, floor = (rng.random(4) for _ in range(4))
    whole, sums = np.zeros((7, 4)), np.zeros(4)
    parts = Blend(old, phi, rate.copy(), lam, exposure)
    conjugate_rows.blend(parts, 0, 7, sums, whole)
    change = rng.standard_normal((7, 4))
    one, two = [change.copy() for _ in range(2)]
    cut, rates = whole.copy(), parts.rate.copy()
    conjugate_rows.absorb(parts, 0, 7, scale, lift, 0.1 * floor, True, one, whole)
    parts = parts._replace(rate=rates)
    drifts, totals = np.zeros((2, 4)), np.zeros((2, 4))
    blocks = ((0, 3), (3, 7))
    for block, drift in zip(blocks, drifts, strict=True):
        conjugate_rows.follow(parts, *block, lift, two, drift)
    for block, total in zip(blocks, totals, strict=True):
        all_drift = drifts.sum(axis=0)
        arguments = (scale, 0.1 * floor, True, all_drift, two, cut, total)
        conjugate_rows.settle(parts, *block, *arguments)
    for block in blocks:
        conjugate_rows.divide_columns(*block, totals.sum(axis=0), cut)
    np.testing.assert_allclose(cut, whole, rtol=1e-13)
    np.testing.assert_allclose(two, one, rtol=1e-12, atol=1e-15)


def test_ratios_are_zero_where_the_factor_is():
    out = np.full((1, 4), 9.0, dtype=np.float32)
    conjugate_rows.ratios(np.ones((1, 4)), np.array([[2.0, 0.0, 1.0, 0.0]]), 0, 1, out)
    assert out.tolist() == [[0.5, 0.0, 1.0, 0.0]]
